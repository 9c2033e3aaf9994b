"""What a model is told of what happened by itself."""

from typing import Any

import pytest

from responses_api_agents.browser_agent.episode import _texts


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "tab_blinked", "url": "u"}, "closed itself at once: u"),
        ({"type": "tab_refused", "url": "u", "most": 20}, "one more tab than the 20"),
        ({"type": "http_error", "status": 404, "url": "u"}, "HTTP status 404: u"),
        ({"type": "http_error", "status": 401, "url": "u"}, "a user name and password: u"),
        ({"type": "load_failed", "url": "u", "reason": "r"}, "could not be opened (r): u"),
        ({"type": "loading", "url": "u"}, "Still loading: u"),
        ({"type": "busy", "url": "u"}, "navigate, reload or close the tab"),
        ({"type": "file_chooser", "files": [], "multiple": False}, "There is none to choose"),
        (
            {"type": "file_chooser", "files": ["a", "b"], "multiple": False},
            "Type a name to choose, or press Escape for none. There are: a, b",
        ),
        ({"type": "file_chooser", "files": ["a"], "multiple": True}, "each on its own line"),
        ({"type": "download_started", "filename": "f"}, "is being downloaded: f"),
        ({"type": "left_out", "events": {"dialog": 30}}, "not listed: 30 dialog"),
    ],
)
def test_each_event_has_words(event: dict[str, Any], words: str) -> None:
    (text,) = _texts({"results": [], "events": [event]})
    assert words in text
