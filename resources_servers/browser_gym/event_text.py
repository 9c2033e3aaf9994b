"""What happened by itself in a session, in words for a model."""

from __future__ import annotations

from typing import Any


def event_text(event: dict[str, Any]) -> str | None:
    """Return what an event of an observation says in words; None if it goes without saying."""
    match event["type"]:
        case "dialog":
            return (
                f"The page showed a {event['dialog_type']} dialog, which was "
                f"{event['answer']}: {event['message']}"
            )
        case "tab_opened":
            return f"A new tab opened and is shown now: {event['url']}"
        case "tab_closed":
            return f"A tab was closed: {event['url']}"
        case "tab_blinked":
            return f"A new tab opened and closed itself at once: {event['url']}"
        case "tab_refused":
            return (
                f"The page opened one more tab than the {event['most']} that may be open; it was "
                f"closed: {event['url']}"
            )
        case "http_error":
            asks = ", which asks for a user name and password" if event["status"] == 401 else ""
            return f"The server answered with HTTP status {event['status']}{asks}: {event['url']}"
        case "load_failed":
            return f"This address could not be opened ({event['reason']}): {event['url']}"
        case "loading":
            return f"Still loading: {event['url']}"
        case "busy":
            return (
                "The page is busy with a script that lets nothing else run. Wait, or navigate, "
                "reload or close the tab to stop it."
            )
        case "file_chooser":
            return _chooser_text(event)
        case "download":
            return f"A file was downloaded: {event['filename']} ({event['bytes']} bytes)"
        case "download_started":
            return f"A file is being downloaded: {event['filename']}"
        case "download_failed":
            return f"A download failed: {event['filename']}: {event['reason']}"
        case "left_out":
            kinds = ", ".join(f"{count} {kind}" for kind, count in event["events"].items())
            return f"More of the same happened and is not listed: {kinds}"
        case "blocked":
            return f"Blocked: {event['url']}: {event['reason']}"
        case "crash":
            return "The page crashed and was loaded again."
    return None


def _chooser_text(event: dict[str, Any]) -> str:
    if not event["files"]:
        return "The page asked for a file. There is none to choose, so the question was cancelled."
    how = "names, each on its own line," if event["multiple"] else "a name"
    return (
        f"The page asks for a file. Type {how} to choose, or press Escape for none. "
        f"There are: {', '.join(event['files'])}"
    )
