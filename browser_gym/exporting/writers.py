"""Writes samples, as JSONL or Parquet, and reads them again. Both hold the same samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from browser_gym.exporting.samples import Format, Sample
from browser_gym.rollouts import UnusableInput

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".jsonl", ".parquet")
_TOKENS_PER_GROUP = 500_000
_SAMPLES_PER_GROUP = 1_000


class Writer(Protocol):
    """Writes samples to a file."""

    def write(self, sample: Sample) -> None:
        """Add a sample."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None: ...


def writer(path: Path, form: Format, name: Path) -> Writer:
    """Return a writer of samples in a format.

    Args:
        path: where to write.
        form: of the samples.
        name: what the file will be called: its suffix says as what it is written.
    """
    return ParquetWriter(path, form) if name.suffix == ".parquet" else JsonlWriter(path)


def read_samples(path: Path) -> Iterator[Sample]:
    """Yield the samples of a file that was exported, without the nulls that only Parquet needs.

    Raises:
        UnusableInput: the file is neither JSONL nor Parquet by its name.
    """
    if path.suffix == ".parquet":
        from pyarrow import parquet

        for batch in parquet.ParquetFile(path).iter_batches(batch_size=64):
            yield from (_without_nulls(sample) for sample in batch.to_pylist())
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as file:
            yield from (_without_nulls(json.loads(line)) for line in file)
    else:
        raise UnusableInput(f"{path}: its name ends neither in .jsonl nor in .parquet")


class JsonlWriter:
    """One sample per line."""

    def __init__(self, path: Path) -> None:
        """Write to `path`, which is replaced."""
        self._file = path.open("w", encoding="utf-8")

    def write(self, sample: Sample) -> None:
        """Add a sample."""
        self._file.write(json.dumps(sample, ensure_ascii=False, separators=(",", ":")) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class ParquetWriter:
    """Row groups of a bounded number of tokens, so that little is held in memory."""

    def __init__(self, path: Path, form: Format) -> None:
        """Write to `path`, which is replaced."""
        from pyarrow import parquet

        self._schema = schema(form)
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._pending: list[Sample] = []
        self._tokens = 0

    def write(self, sample: Sample) -> None:
        """Add a sample."""
        self._pending.append(sample)
        self._tokens += len(sample.get("token_ids") or ())
        if self._tokens >= _TOKENS_PER_GROUP or len(self._pending) >= _SAMPLES_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow

        if self._pending:
            self._writer.write_table(pyarrow.Table.from_pylist(self._pending, self._schema))
        self._pending, self._tokens = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            self._writer.close()


def schema(form: Format) -> pyarrow.Schema:
    """Return the Parquet schema of a format."""
    import pyarrow as pa

    text, whole, texts = pa.string(), pa.int32(), pa.list_(pa.string())
    function = pa.struct({"name": text, "arguments": text})
    call = pa.struct({"id": text, "type": text, "function": function})
    message = {
        "role": text,
        "content": pa.list_(pa.struct({"type": text, "text": text})),
        "reasoning_content": text,
        "tool_calls": pa.list_(call),
        "tool_call_id": text,
    }
    messages = pa.list_(pa.struct(message))
    common = {
        "id": text,
        "task_id": text,
        "group": text,
        "rollout": pa.int64(),
        "reward": pa.float64(),
        "mask_sample": pa.bool_(),
        "termination_reason": text,
    }
    tokens = {
        "token_ids": pa.list_(whole),
        "loss_mask": pa.list_(pa.int8()),
        "log_probs": pa.list_(pa.float64()),
        "images": texts,
    }
    own = {
        "whole": tokens,
        "segmented": {"segment": whole, "segments": whole, "turns": pa.list_(whole), **tokens},
        "stepwise": {
            **{"turn": whole, "turns": whole, "prompt": messages, "completion": messages},
            **tokens,
        },
        "sft": {"messages": messages, "images": texts},
    }
    return pa.schema({**common, **own[form]})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
