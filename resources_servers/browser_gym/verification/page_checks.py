"""Checks on the page that a session ended on: its address, its visible text, its elements."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from resources_servers.browser_gym.browser.page_state import KEEP_NOTHING, Keep
from resources_servers.browser_gym.task_row import check_web_address
from resources_servers.browser_gym.verification import answer_text
from resources_servers.browser_gym.verification.checks import Check, Outcome, State, required_text
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.urls import same_address

FIELDS = (
    frozenset({"final_url"}),
    frozenset({"url_contains"}),
    frozenset({"dom_contains"}),
)
MAX_SELECTOR_CHARS = 2_000
_SHOWN_TEXT_CHARS = 500


@dataclass(frozen=True)
class _FinalUrl:
    url: str

    def judge(self, state: State) -> Outcome:
        return Outcome(same_address(state.page.url, self.url), self.url, state.page.url)


@dataclass(frozen=True)
class _UrlContains:
    part: str

    def judge(self, state: State) -> Outcome:
        url = state.page.url
        return Outcome(self.part in url or self.part in unquote(url), self.part, url)


@dataclass(frozen=True)
class _ContainsText:
    text: str

    @property
    def keep(self) -> Keep:
        return Keep(text=True)

    def judge(self, state: State) -> Outcome:
        page = state.page
        if page.problem:
            return Outcome(False, self.text, f"the page could not be read: {page.problem}")
        if page.text is None:
            raise VerifierError("the page's text was not kept when the session ended")
        passed = answer_text.contains(page.text, self.text)
        return Outcome(passed, self.text, page.text[:_SHOWN_TEXT_CHARS])


@dataclass(frozen=True)
class _ContainsElement:
    selector: str
    text: str | None

    @property
    def keep(self) -> Keep:
        return Keep(selectors=(self.selector,))

    def judge(self, state: State) -> Outcome:
        expected = {"selector": self.selector} | ({"text": self.text} if self.text else {})
        page = state.page
        if page.problem:
            return Outcome(False, expected, f"the page could not be read: {page.problem}")
        found = page.found.get(self.selector)
        if found is None:
            raise VerifierError(
                f"what {self.selector!r} matches was not kept when the session ended"
            )
        passed = found.count > 0
        if self.text is not None:
            passed = any(answer_text.contains(text, self.text) for text in found.texts)
        return Outcome(passed, expected, {"elements": found.count, "texts": found.texts[:5]})


def parse(item: dict[str, Any], name: str) -> Check:
    """Reads a check whose fields are in `FIELDS`; raises `InvalidTask` naming the field."""
    if "final_url" in item:
        url = required_text(item["final_url"], f"{name}.final_url").strip()
        if url != "about:blank":
            try:
                check_web_address(url)
            except ValueError as error:
                raise InvalidTask(f"{name}.final_url: {error}") from error
        return _FinalUrl(url)
    if "url_contains" in item:
        return _UrlContains(required_text(item["url_contains"], f"{name}.url_contains"))
    field = f"{name}.dom_contains"
    wanted = item["dom_contains"]
    if isinstance(wanted, dict):
        if not {"selector"} <= wanted.keys() <= {"selector", "text"}:
            raise InvalidTask(f"{field}: give a selector, and a text where wanted, and no more")
        selector = required_text(wanted["selector"], f"{field}.selector")
        if len(selector) > MAX_SELECTOR_CHARS:
            raise InvalidTask(f"{field}.selector: give at most {MAX_SELECTOR_CHARS} characters")
        text = wanted.get("text")
        return _ContainsElement(
            selector, None if text is None else required_text(text, f"{field}.text")
        )
    return _ContainsText(required_text(wanted, field))


def keep_for(check: Check) -> Keep:
    """Returns what a check wants kept of the session."""
    return getattr(check, "keep", KEEP_NOTHING)
