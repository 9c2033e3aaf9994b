"""A policy small enough to train on a CPU in minutes, in numpy alone.

It looks at the last screenshot, scaled down to a few pixels for each cell of a grid, and writes a
reply of a few tokens. It reads no words: the task is always the same, only the picture differs.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from examples.tiny_tokens import CELLS, COLUMNS, END, ROWS, TEXTS, options

Array = np.ndarray
Parameters = dict[str, Array]

PATCH = 4
"""Pixels that it sees of each cell of the screen, in both directions."""
HIDDEN = 16
OUTPUTS = 1 + len(TEXTS)
"""The tokens it can write: those from `END` on."""
FIRST_CELL = CELLS.start - END
CLIP = 0.2
"""How far a token's probability may move from that it was sampled with before it stops counting."""


@dataclass(frozen=True)
class Batch:
    """Sampled tokens to learn from, one in each row of the arrays.

    Attributes:
        pixels: what was seen: of each cell, the colors of its pixels.
        allowed: whether each of the `OUTPUTS` could have been sampled.
        chosen: which of them was.
        log_probs: of that one, when it was sampled.
        advantages: of the rollout that it is part of.
    """

    pixels: Array
    allowed: Array
    chosen: Array
    log_probs: Array
    advantages: Array


def seen(image: bytes) -> Array:
    """Return what the policy sees of an encoded image: of each cell, colors from -1 to 1."""
    size = (COLUMNS * PATCH, ROWS * PATCH)
    with Image.open(io.BytesIO(image)) as picture:
        small = np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BOX), dtype=float)
    patches = small.reshape(ROWS, PATCH, COLUMNS, PATCH, 3).swapaxes(1, 2)
    return patches.reshape(ROWS * COLUMNS, -1) / 127.5 - 1


def allowed_after(before: int | None) -> Array:
    """Return which of the `OUTPUTS` may follow a token of a reply; None is its beginning."""
    mask = np.zeros(OUTPUTS, dtype=bool)
    mask[[token - END for token in options(before)]] = True
    return mask


class TinyPolicy:
    """A hidden layer that looks at each cell in the same way, trained with Adam.

    A cell is clicked for what it shows; whether to click at all follows from the mean of all cells.

    Attributes:
        parameters: the weights by their names.
        dice: what tokens are drawn with.
    """

    def __init__(self, seed: int, learning_rate: float = 0.05) -> None:
        """Draw the first weights, with which all possible tokens are equally likely.

        Args:
            seed: of these and of what is sampled.
            learning_rate: how far a step goes.
        """
        self.dice = np.random.default_rng(seed)
        colors = 3 * PATCH**2
        self.parameters: Parameters = {
            "hidden": self.dice.normal(0, colors**-0.5, (colors, HIDDEN)),
            "hidden_bias": np.zeros(HIDDEN),
            "cell": np.zeros(HIDDEN),
            "other": np.zeros((HIDDEN, FIRST_CELL)),
            "other_bias": np.zeros(FIRST_CELL),
        }
        self._learning_rate = learning_rate
        self._mean = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self._square = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self._steps = 0

    def reply(self, image: bytes) -> tuple[list[int], list[float]]:
        """Sample a reply to an encoded image; return its tokens and their log probs."""
        pixels = seen(image)[None]
        tokens: list[int] = []
        log_probs: list[float] = []
        while not tokens or tokens[-1] != END:
            allowed = allowed_after(tokens[-1] if tokens else None)
            logs = self._log_probs(pixels, allowed[None])[0]
            output = self.dice.choice(OUTPUTS, p=np.exp(logs))
            tokens.append(END + int(output))
            log_probs.append(float(logs[output]))
        return tokens, log_probs

    def log_probs(self, batch: Batch) -> Array:
        """Return the log probs that the sampled tokens have now."""
        logs = self._log_probs(batch.pixels, batch.allowed)
        return logs[np.arange(len(logs)), batch.chosen]

    def objective(self, batch: Batch) -> float:
        """Return the mean over the tokens of ratio times advantage, clipped as in PPO."""
        ratios = np.exp(self.log_probs(batch) - batch.log_probs)
        clipped = ratios.clip(1 - CLIP, 1 + CLIP)
        return float(np.minimum(ratios * batch.advantages, clipped * batch.advantages).mean())

    def gradient(self, batch: Batch) -> Parameters:
        """Return the gradient of the objective, by the names of the parameters."""
        hidden = self._hidden(batch.pixels)
        logs = self._masked(self._output(hidden), batch.allowed)
        rows = np.arange(len(logs))
        ratios = np.exp(logs[rows, batch.chosen] - batch.log_probs)
        # Where the ratio has moved beyond the clip in the direction of the advantage, it is enough.
        moving = np.where(batch.advantages > 0, ratios < 1 + CLIP, ratios > 1 - CLIP)
        weights = moving * ratios * batch.advantages / len(logs)
        outputs = -np.exp(logs) * weights[:, None]
        outputs[rows, batch.chosen] += weights
        others, cells = outputs[:, :FIRST_CELL], outputs[:, FIRST_CELL:]
        inner = cells[:, :, None] * self.parameters["cell"]
        inner += (others @ self.parameters["other"].T)[:, None] / len(CELLS)
        inner *= 1 - hidden**2
        return {
            "hidden": np.einsum("ncp,nch->ph", batch.pixels, inner),
            "hidden_bias": inner.sum(axis=(0, 1)),
            "cell": np.einsum("nc,nch->h", cells, hidden),
            "other": hidden.mean(axis=1).T @ others,
            "other_bias": others.sum(axis=0),
        }

    def step(self, batch: Batch) -> None:
        """Go one step of Adam up the objective."""
        self._steps += 1
        for name, slope in self.gradient(batch).items():
            mean, square = self._mean[name], self._square[name]
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope**2 - square)
            expected = mean / (1 - 0.9**self._steps)
            size = np.sqrt(square / (1 - 0.999**self._steps)) + 1e-8
            self.parameters[name] += self._learning_rate * expected / size

    def _hidden(self, pixels: Array) -> Array:
        return np.tanh(pixels @ self.parameters["hidden"] + self.parameters["hidden_bias"])

    def _output(self, hidden: Array) -> Array:
        cells = hidden @ self.parameters["cell"]
        others = hidden.mean(axis=1) @ self.parameters["other"] + self.parameters["other_bias"]
        return np.concatenate([others, cells], axis=1)

    def _log_probs(self, pixels: Array, allowed: Array) -> Array:
        return self._masked(self._output(self._hidden(pixels)), allowed)

    @staticmethod
    def _masked(logits: Array, allowed: Array) -> Array:
        """Return the log probs of the allowed outputs; the others have none."""
        logits = np.where(allowed, logits, -np.inf)
        logits = logits - logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
