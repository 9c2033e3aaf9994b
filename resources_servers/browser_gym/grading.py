"""From a session's end, or a stored rollout, to the fields of a graded row."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from resources_servers.browser_gym.browser.capture import shown_text, valid_unicode
from resources_servers.browser_gym.browser.final_state import FinalState
from resources_servers.browser_gym.redaction import hide_secrets
from resources_servers.browser_gym.verification.contract import Evidence, Verdict
from resources_servers.browser_gym.verification.evidence_store import (
    EvidenceStore,
    decoded,
    screenshot_names,
)

logger = logging.getLogger(__name__)

MAX_STORAGE_CHARS = 20_000
"""How long `final_local_storage` of a row may be, as JSON text; the evidence has all of it."""
# NeMo Gym keeps such rows apart, for `gym eval reverify --judge-failed-only` to judge again.
_FAILURE_CLASSES = {"judge_failed": "judge_failed", "judge_unparseable": "judge_invalid"}


class Grading:
    """Makes evidence, keeps it, and tells what of it a row shows."""

    def __init__(self, folder: str | None, root: Path) -> None:
        """Keep evidence in `folder` (None for not at all); see `EvidenceStore`."""
        self._keeps = folder is not None
        self._store = EvidenceStore(Path(folder or "."), root)

    async def of_session(
        self, state: FinalState, answer: str, task_input: Any
    ) -> tuple[Evidence, dict[str, Any]]:
        """Return what a session left behind, and the fields that tell of it.

        Args:
            state: what was read as it ended.
            answer: the model's final message.
            task_input: `responses_create_params.input` of the row.
        """
        evidence = Evidence(
            start_origin=state.start_origin,
            initial=state.initial,
            final=state.final,
            answer=answer,
            task=task_text(task_input),
            page=state.page,
            screenshots=tuple(decoded(i.data, i.media_type) for i in state.screenshots),
        )
        reference = None
        if self._keeps:
            try:
                reference = await self._store.save(evidence)
            except OSError as error:
                # The verdict is as good without it; it only cannot be given again.
                logger.warning("evidence could not be kept: %s", error)
        return evidence, _fields(evidence, reference)

    async def of_row(self, reference: str) -> tuple[Evidence, dict[str, Any]]:
        """Return the evidence of a stored rollout, and the fields that tell of it.

        Raises:
            VerifierError: it is not there, or is not what was written.
        """
        evidence = await self._store.load(reference)
        return evidence, _fields(evidence, reference) | {"final_answer": evidence.answer}


def graded(verdict: Verdict) -> dict[str, Any]:
    """Return a row's fields of a verdict."""
    return {
        "reward": verdict.reward,
        "partial_credit": verdict.partial_credit,
        "verification_result": verdict.to_json(),
    }


def masked(kind: str, reason: str) -> dict[str, Any]:
    """Return a row's fields if there is no verdict, which is never a reward that counts."""
    reason = hide_secrets(reason)
    fields: dict[str, Any] = {
        "reward": 0.0,
        "mask_sample": True,
        "instance_config": {"mask_sample": True},
        "failure_kind": kind,
        "failure_reason": reason,
    }
    if kind in _FAILURE_CLASSES:
        fields["_ng_failure_class"] = _FAILURE_CLASSES[kind]
        fields["_ng_failure_message"] = reason
    return fields


def task_text(task_input: Any) -> str:
    """Return what the user asks for in `responses_create_params.input`."""
    if isinstance(task_input, str):
        return task_input
    texts: list[str] = []
    for message in task_input or []:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        parts = [content] if isinstance(content, str) else [p.get("text") for p in content or []]
        texts += [part for part in parts if part]
    return "\n".join(texts)


def _fields(evidence: Evidence, reference: str | None) -> dict[str, Any]:
    storage = {
        valid_unicode(key): valid_unicode(text) for key, text in evidence.final_storage.items()
    }
    fits = len(json.dumps(storage, ensure_ascii=False)) <= MAX_STORAGE_CHARS
    fields: dict[str, Any] = {
        "final_url": hide_secrets(shown_text(evidence.page.url)),
        "final_local_storage": storage if fits else None,
    }
    if reference is not None:
        # NeMo Gym's name for what `gym eval reverify` hands on.
        fields["deliverables_dir"] = reference
        fields["evidence_screenshots"] = [
            f"{reference}/{name}" for name in screenshot_names(evidence)
        ]
    return fields
