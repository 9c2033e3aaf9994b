"""Rollout rows as agents write them, made up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One reply of the model, and what it saw before.

    Attributes:
        text: of the reply.
        thought: of the reply; empty for none.
        call: whether the reply calls a function; else it acts in words.
        new_segment: whether the history was cut before it.
        prompt: how many tokens its prompt has behind what came before; at least one.
        generated: how many tokens the reply has; at least one.
    """

    text: str = "I click."
    thought: str = ""
    call: bool = False
    new_segment: bool = False
    prompt: int = 3
    generated: int = 2


@dataclass
class Episode:
    """An episode and how it went."""

    turns: list[Turn]
    task: int = 0
    repeat: int = 0
    reward: float = 1.0
    tokens: bool = True
    more: Json = field(default_factory=dict)

    def image(self, turn: int) -> str:
        """The reference to what a turn saw."""
        return f"artifacts/{self.task}-{self.repeat}-{turn}.jpg"

    def row(self) -> Json:
        """The row of the rollout."""
        asked = [
            {"role": "system", "content": "Act."},
            {"role": "user", "content": [text("Do it."), self._picture(0)]},
        ]
        output: list[Json] = []
        for index, turn in enumerate(self.turns):
            if turn.thought:
                thought = {"type": "summary_text", "text": turn.thought}
                output.append({"type": "reasoning", "id": f"rs{index}", "summary": [thought]})
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            output.append({"type": "message", "role": "assistant", "content": [part]})
            if turn.call:
                call = {"type": "function_call", "call_id": f"c{index}", "name": "click"}
                output.append(call | {"arguments": '{"x": 1}'})
            if index + 1 < len(self.turns):
                if turn.call:
                    answer = {"type": "function_call_output", "call_id": f"c{index}"}
                    output.append(answer | {"output": "ok", "id": "i", "status": "completed"})
                shown = [text("The screen is now:"), self._picture(index + 1)]
                output.append({"type": "message", "role": "user", "content": shown})
        row = {
            "responses_create_params": {"input": asked},
            "response": {"output": output},
            "reward": self.reward,
            "mask_sample": False,
            "termination_reason": "finished",
            "turns": [{"index": index} for index in range(len(self.turns))],
            "first_observation": {"screenshot": self.image(0)},
            "verifier_metadata": {"task_id": f"T-{self.task}"},
            "_ng_task_index": self.task,
            "_ng_rollout_index": self.repeat,
        }
        if self.tokens:
            row["segments"] = self.segments()
        return row | self.more

    def segments(self) -> list[Json]:
        """The token ids: each is another, so that nothing can be mixed up unseen."""
        ids = itertools.count(1)
        segments: list[Json] = []
        for index, turn in enumerate(self.turns):
            if turn.new_segment or not segments:
                segments.append({"steps": []})
            step = {
                "turn": index,
                "new_prompt_token_ids": [next(ids) for _ in range(turn.prompt)],
                "new_images": [self.image(index)],
                "generation_token_ids": [next(ids) for _ in range(turn.generated)],
                "generation_log_probs": [-1 / next(ids) for _ in range(turn.generated)],
            }
            segments[-1]["steps"].append(step)
        return segments

    def _picture(self, turn: int) -> Json:
        return {"type": "input_image", "image_url": self.image(turn), "detail": "auto"}


def text(words: str) -> Json:
    """A text part."""
    return {"type": "input_text", "text": words}


def write(folder: Path, rows: Iterable[Json], name: str = "run.jsonl") -> Path:
    """Write a rollout file, and all images its rows refer to as files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    rows = list(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        for reference in set(_references(row)):
            (folder / reference).parent.mkdir(exist_ok=True)
            (folder / reference).write_bytes(picture(reference))
    return path


def picture(reference: str) -> bytes:
    """Return what the file of a reference holds: by its beginning, an image."""
    return b"\xff\xd8\xff" + reference.encode()


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
    elif isinstance(value, str) and value.startswith("artifacts/"):
        yield value


_counts = st.integers(1, 4)
_turns = st.builds(
    Turn,
    text=st.text(max_size=8),
    thought=st.text(max_size=4),
    call=st.booleans(),
    new_segment=st.booleans(),
    prompt=_counts,
    generated=_counts,
)
episodes = st.builds(
    Episode,
    turns=st.lists(_turns, min_size=1, max_size=5),
    task=st.integers(0, 2),
    repeat=st.integers(0, 99),
    reward=st.sampled_from([0.0, 0.5, 1.0]),
    tokens=st.booleans(),
    more=st.sampled_from(
        [
            {},
            {},
            {"mask_sample": True, "failure_kind": "session_lost"},
            {"termination_reason": None},
        ]
    ),
)
