"""Zoom, reading the page and setting values, in real Chromium on a page of forms."""

import base64
import io
import json
import re
from typing import Any, cast

import PIL.Image
import pytest

from conftest import Client, ClientFactory


class Forms:
    """A session on the forms page."""

    def __init__(self, client: Client, env_id: str) -> None:
        self.client, self.env_id = client, env_id

    async def step(self, *actions: dict[str, Any]) -> dict[str, Any]:
        return await self.client.step(self.env_id, *actions)

    async def do(self, *actions: dict[str, Any]) -> dict[str, Any]:
        answer = await self.step(*actions)
        assert answer["error"] is None, answer["error"]
        return answer

    async def _stored(self, key: str) -> Any:
        dump = json.loads((await self.client.storage(self.env_id))["local_storage_dump"])
        return json.loads(dump[key])

    async def log(self) -> list[str]:
        return await self._stored("log")

    async def values(self) -> dict[str, Any]:
        return await self._stored("values")


@pytest.fixture
async def forms(client: Client, site: str) -> Forms:
    seeded = await client.seed(f"{site}/forms.html", viewport_width=1280, viewport_height=720)
    return Forms(client, seeded["env_id"])


def _image(answer: dict[str, Any]) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(base64.b64decode(answer["screenshot"]))).convert("RGB")


def _pixel(image: PIL.Image.Image, x: int, y: int) -> tuple[int, int, int]:
    return cast(tuple[int, int, int], image.getpixel((x, y)))


def _extremes(image: PIL.Image.Image) -> tuple[int, int]:
    return cast(tuple[int, int], image.convert("L").getextrema())


def _zoom(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    return {"type": "zoom", "region": {"x0": x0, "y0": y0, "x1": x1, "y1": y1}}


async def test_zoom_shows_the_region_once(forms: Forms) -> None:
    answer = await forms.do(_zoom(1000, 300, 1200, 400))
    image = _image(answer)
    assert image.size == (1280, 640)
    left, right = _pixel(image, 600, 320), _pixel(image, 680, 320)
    assert left[0] > 200 > 50 > left[2]
    assert right[2] > 200 > 50 > right[0]
    assert answer["events"] == [
        {"type": "zoom", "region": {"x0": 1000, "y0": 300, "x1": 1200, "y1": 400}}
    ]
    answer = await forms.do({"type": "screenshot"})
    assert (_image(answer).size, answer["events"]) == ((1280, 720), [])
    assert await forms.log() == []  # the page was not resized for it


async def test_zoom_draws_the_page_anew_instead_of_stretching_pixels(forms: Forms) -> None:
    whole = _image(await forms.do({"type": "screenshot"})).crop((1010, 30, 1190, 210))
    zoomed = _image(await forms.do(_zoom(1010, 30, 1190, 210)))
    assert zoomed.size == (720, 720)
    darkest, brightest = _extremes(whole)
    assert brightest - darkest < 60
    darkest, brightest = _extremes(zoomed)
    assert darkest < 60
    assert brightest > 195


async def test_zoom_follows_the_scroll_position(forms: Forms) -> None:
    await forms.do({"type": "scroll", "x": 1240, "y": 600, "dy": 200})
    image = _image(await forms.do(_zoom(1000.5, 100.5, 1199.5, 199.5)))
    assert image.size == (1280, 637)
    assert _pixel(image, 300, 10)[0] > 200
    assert _pixel(image, 300, 626)[0] > 200


async def test_only_a_last_zoom_shapes_the_screenshot(forms: Forms) -> None:
    answer = await forms.do(_zoom(1000, 300, 1200, 400), {"type": "move", "x": 5, "y": 5})
    assert (_image(answer).size, answer["events"]) == ((1280, 720), [])


@pytest.mark.parametrize(
    ("region", "fix"),
    [
        ((100, 100, 100, 200), "empty or reversed: give its top left corner as x0, y0"),
        ((200, 100, 100, 200), "empty or reversed"),
        ((-1, 0, 100, 100), "reaches outside the 1280x720 viewport: keep x within 0 and 1280"),
        ((0, 0, 1281, 100), "reaches outside"),
        ((0, 700, 100, 800), "y within 0 and 720"),
        ((0, 0, 9.5, 100), "the region is 9.5x100 px: make it at least 10 px wide and high"),
    ],
)
async def test_a_region_that_cannot_be_shown_is_told(
    forms: Forms, region: tuple[float, float, float, float], fix: str
) -> None:
    answer = await forms.step(_zoom(*region))
    assert answer["error"].startswith("zoom: the region")
    assert fix in answer["error"]
    assert _image(answer).size == (1280, 720)


async def _text(forms: Forms, action: dict[str, Any]) -> str:
    return (await forms.do(action))["results"][-1]["text"]


async def test_page_text_is_what_is_drawn(forms: Forms) -> None:
    text = await _text(forms, {"type": "page_text"})
    for shown in (
        "\nOpen invoices\nFirst line\nsecond line\nkept\nlines\ncell one\tcell two\nMore\n",
        "\ndeep in the pane\nshadow text\nlight text Shade\nframed text\nInner\n",
        "Name\nYour name",
        "Country\nGermany",
        "Secret\n•••••••",
    ):
        assert shown in text
    for hidden in ("never drawn", "invisible", "transparent", "folded", "hunter2", "Nowhere"):
        assert hidden not in text


async def test_page_text_is_cut_and_says_so(forms: Forms, site: str) -> None:
    await forms.do({"type": "navigate", "url": f"{site}/long.html"})
    text = await _text(forms, {"type": "page_text"})
    assert text.endswith("\n[cut after 20000 characters: look for the rest with find]")
    assert len(text) < 20_100
    found = await _text(forms, {"type": "find", "query": "row 2999"})
    assert found.startswith('1 match(es):\n"row 2999 of many" off screen, scroll by dy ')


async def test_page_text_of_an_empty_page(forms: Forms) -> None:
    await forms.do({"type": "navigate", "url": "about:blank"})
    assert await _text(forms, {"type": "page_text"}) == "(the page shows no text)"


def _points(text: str) -> list[dict[str, float]]:
    return [
        {"x": float(x), "y": float(y)} for x, y in re.findall(r"at \(([-\d.]+), ([-\d.]+)\)", text)
    ]


async def test_find_tells_points_that_can_be_clicked(forms: Forms) -> None:
    found = await _text(forms, {"type": "find", "query": "  OPEN   invoices "})
    assert found.startswith('1 match(es):\n"Open invoices" at (')
    [point] = _points(await _text(forms, {"type": "find", "query": "Agree"}))
    await forms.do({"type": "click", **point})
    assert await forms.log() == ["input agree", "change agree"]


async def test_find_looks_into_frames_and_shadow_roots(forms: Forms) -> None:
    assert _points(await _text(forms, {"type": "find", "query": "Inner"})) == [{"x": 800, "y": 85}]
    [point] = _points(await _text(forms, {"type": "find", "query": "Shade"}))
    assert 480 < point["x"] < 680
    assert 420 < point["y"] < 480


async def test_find_tells_how_to_scroll_there(forms: Forms) -> None:
    found = await _text(forms, {"type": "find", "query": "far below"})
    dy = int(found.rsplit("off screen, scroll by dy ", 1)[1])
    await forms.do({"type": "scroll", "x": 1240, "y": 600, "dy": dy})
    [point] = _points(await _text(forms, {"type": "find", "query": "far below"}))
    answer = await forms.do({"type": "click", **point})
    assert answer["current_url"].endswith("/second.html")


async def test_find_tells_which_part_to_scroll(forms: Forms) -> None:
    found = await _text(forms, {"type": "find", "query": "deep in"})
    match = re.search(r"off screen, scroll at \((\d+), (\d+)\) by dy (\d+)$", found)
    assert match
    x, y, dy = (int(number) for number in match.groups())
    await forms.do({"type": "scroll", "x": x, "y": y, "dy": dy})
    [point] = _points(await _text(forms, {"type": "find", "query": "deep in"}))
    assert 300 < point["y"] < 400


async def test_find_says_what_is_covered_or_absent(forms: Forms) -> None:
    found = await _text(forms, {"type": "find", "query": "Covered"})
    assert found.endswith('"Covered" at (770, 220), covered')
    assert await _text(forms, {"type": "find", "query": "(a+"}) == 'no visible text matches "(a+"'
    answer = await forms.step({"type": "find", "query": " "})
    assert answer["error"] == "find: give some text to find"


async def test_find_is_bounded(forms: Forms, site: str) -> None:
    await forms.do({"type": "navigate", "url": f"{site}/long.html"})
    lines = (await _text(forms, {"type": "find", "query": "of many"})).split("\n")
    assert lines[0] == "3000 match(es), the first 20:"
    assert len(lines) == 21


async def test_elements_on_the_screen_are_listed(forms: Forms) -> None:
    lines = (await _text(forms, {"type": "list_elements"})).split("\n")
    rows = [line.split(" ", 1)[1] for line in lines]
    assert [line.split(" ", 1)[0] for line in lines] == [f"e{n + 1}" for n in range(len(lines))]
    assert rows[0] == 'textbox "Name", value "", at (300, 33), 240x26 px'
    for row in (
        'checkbox "Agree", not checked, at (300, 303), 240x26 px',
        'combobox "Country", value "Germany", at (300, 393), 240x26 px',
        'textbox "Off", value "", disabled, at (300, 483), 240x26 px',
        'password "Secret", value "•••••••", at (300, 513), 240x26 px',
        'button "Inner", at (800, 85), 100x30 px',
        'div "Pick me", at (770, 290), 100x40 px',
        'textbox "", value "old text", at (580, 530), 200x60 px',
    ):
        assert row in rows
    names = [row.split('"')[1] for row in rows]
    # The last one is a field whose name hides that property of its form.
    assert {"Shade", "More", "red", "parentElement"} < set(names)
    assert not {"Covered", "far below"} & set(names)


async def test_the_top_layer_is_not_cut_off_by_what_it_lies_in(client: Client, site: str) -> None:
    page = Forms(client, (await client.seed(f"{site}/moving.html"))["env_id"])
    opened = {"type": "click", "x": 430, "y": 110}, {"type": "list_elements"}
    listed = (await page.do(*opened))["results"][1]["text"]
    assert [name for name in ("small", "large", "huge") if f'option "{name}"' in listed] == [
        "small",
        "large",
        "huge",
    ]
    assert "cut button" not in listed
    await page.do({"type": "key", "chords": [["Escape"]]})
    for x, name in ((420, "of the popover"), (515, "of the dialog")):
        opened = {"type": "click", "x": x, "y": 211}, {"type": "list_elements"}
        assert f'button "{name}"' in (await page.do(*opened))["results"][1]["text"]
        found = (await page.do({"type": "find", "query": name.replace("of", "in", 1)}))["results"]
        assert re.search(r" at \(\d", found[0]["text"])
        await page.do({"type": "key", "chords": [["Escape"]]})
    cut = (await page.do({"type": "find", "query": "cut button"}))["results"][0]["text"]
    assert "hidden by what it lies in" in cut


async def test_elements_keep_their_refs_and_refs_are_not_given_twice(
    forms: Forms, site: str
) -> None:
    first = await _text(forms, {"type": "list_elements"})
    await forms.do({"type": "click", "x": 300, "y": 303})
    again = await _text(forms, {"type": "list_elements"})
    assert again == first.replace('"Agree", not checked', '"Agree", checked')
    await forms.do({"type": "reload"})
    after = await _text(forms, {"type": "list_elements"})
    last = int(first.split("\n")[-1].split(" ")[0][1:])
    assert after.startswith(f"e{last + 1} textbox")


async def test_list_is_bounded(forms: Forms, site: str) -> None:
    await forms.do({"type": "navigate", "url": f"{site}/long.html?buttons"})
    lines = (await _text(forms, {"type": "list_elements"})).split("\n")
    assert len(lines) == 201
    assert re.fullmatch(r"\[\d+ more are left out\]", lines[-1])


@pytest.mark.usefixtures("short_waits_for_a_page")
async def test_a_page_that_hangs_is_told(new_client: ClientFactory, site: str) -> None:
    client = await new_client(action_timeout_s=10, settle_max_ms=200)
    seeded = await client.seed(f"{site}/long.html")
    answer = await client.step(
        seeded["env_id"], {"type": "click", "x": 5, "y": 5}, {"type": "page_text"}
    )
    assert answer["error"].startswith("page_text: the page is busy with a script")


async def test_the_verifiers_answers_cannot_be_read(forms: Forms, site: str) -> None:
    answer = await forms.step({"type": "navigate", "url": f"{site}/redirect-to-verifier"})
    assert "ERR_BLOCKED_BY_CLIENT" in answer["error"]
    answer = await forms.step({"type": "page_text"})
    assert "expected state" not in json.dumps(answer)


# The fields are in rows of 30 px from y = 20, in the order of the page.
# fmt: off
FIELDS = (
    "name", "amount", "due", "start", "month", "week", "meeting", "color", "volume", "agree",
    "small", "large", "country", "notes", "locked", "off", "secret", "controlled", "tags",
)
# fmt: on
ROWS = {name: {"x": 300, "y": 33 + 30 * row} for row, name in enumerate(FIELDS)}


def _set(field: str, value: Any) -> dict[str, Any]:
    return {"type": "set_value", **ROWS[field], "value": value}


@pytest.mark.parametrize(
    ("field", "value", "kept", "told"),
    [
        ("name", "Ünïcödé 🚀", "Ünïcödé 🚀", 'textbox "Name" is now value "Ünïcödé 🚀"'),
        ("name", 12, "12", 'textbox "Name" is now value "12"'),
        ("amount", 12.5, "12.5", 'number "Amount" is now value "12.5"'),
        ("amount", "-3", "-3", 'number "Amount" is now value "-3"'),
        ("due", "2026-11-29", "2026-11-29", 'date "Due" is now value "2026-11-29"'),
        ("start", "09:30", "09:30", 'time "Start" is now value "09:30"'),
        ("month", "2026-11", "2026-11", 'month "Month" is now value "2026-11"'),
        ("week", "2026-W48", "2026-W48", 'week "Week" is now value "2026-W48"'),
        (
            "meeting",
            "2026-11-29T09:30",
            "2026-11-29T09:30",
            'datetime-local "Meeting" is now value "2026-11-29T09:30"',
        ),
        ("color", "#FF8000", "#ff8000", 'color "Color" is now value "#ff8000"'),
        ("volume", 65, "65", 'range "Volume" is now value "65"'),
        ("agree", True, True, 'checkbox "Agree" is now checked'),
        ("large", True, True, 'radio "Large" is now checked'),
        ("country", "fr", "fr", 'combobox "Country" is now value "France"'),
        ("country", " france", "fr", 'combobox "Country" is now value "France"'),
        ("notes", "one\ntwo", "one\ntwo", 'textbox "Notes" is now value "one two"'),
        ("tags", ["red", "3"], ["red", "blue"], 'listbox "Tags" is now value "red, blue"'),
        ("tags", "green", ["green"], 'listbox "Tags" is now value "green"'),
    ],
)
async def test_set_value_fires_each_event_once(
    forms: Forms, field: str, value: Any, kept: Any, told: str
) -> None:
    assert await _text(forms, _set(field, value)) == told
    assert (await forms.values())[field] == kept
    events = [f"input {field}", f"change {field}"]
    assert await forms.log() == events
    # Neither the same value again nor leaving the field is another change.
    await forms.do(_set(field, value), {"type": "click", "x": 1240, "y": 600})
    assert await forms.log() == events


async def test_set_value_is_noticed_by_a_controlled_input(forms: Forms) -> None:
    await forms.do(_set("controlled", "first"), _set("controlled", "second"))
    assert (await forms.values())["known"] == "second"


async def test_set_value_of_editable_text(forms: Forms) -> None:
    action = {"type": "set_value", "x": 580, "y": 530}
    assert await _text(forms, {**action, "value": "new text"}) == (
        'textbox "" is now value "new text"'
    )
    assert (await forms.values())["rich"] == "new text"
    assert await forms.log() == ["input rich"]
    await forms.do({**action, "value": ""})
    assert (await forms.values())["rich"].strip() == ""


async def test_set_value_can_clear_and_uncheck(forms: Forms) -> None:
    await forms.do(_set("due", "2026-11-29"), _set("due", ""))
    await forms.do(_set("agree", True), _set("agree", False))
    await forms.do(_set("tags", ["red"]), _set("tags", []))
    values = await forms.values()
    assert (values["due"], values["agree"], values["tags"]) == ("", False, [])


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", "x" * 41, 'textbox "Name": at most 40 characters are allowed'),
        ("name", ["a"], 'textbox "Name": give one value, not a list'),
        ("amount", "many", 'number "Amount": give a number'),
        ("due", "11/29/2026", 'date "Due": give YYYY-MM-DD'),
        ("due", "2026-02-30", 'date "Due": give YYYY-MM-DD'),
        ("start", "9:30 PM", 'time "Start": give HH:MM, 24 hours'),
        ("color", "red", 'color "Color": give #rrggbb'),
        ("volume", 5, 'range "Volume": give a number from 10 to 90 in steps of 5'),
        ("agree", "yes", 'checkbox "Agree": give true or false'),
        ("small", False, "a radio button is left by choosing another one of its group"),
        ("country", "Spain", 'there is no option "Spain": choose from "Germany", "France"'),
        ("country", "xx", 'there is no option "xx"'),
        ("country", ["de", "fr"], "give one option, not a list"),
        ("locked", "x", 'textbox "Locked": it is read-only'),
        ("off", "x", 'textbox "Off": it is disabled'),
        ("notes", True, 'textbox "Notes": give text'),
    ],
)
async def test_set_value_says_what_is_allowed(
    forms: Forms, field: str, value: Any, error: str
) -> None:
    before = await forms.values()
    answer = await forms.step(_set(field, value))
    assert answer["error"].startswith("set_value: ")
    assert error in answer["error"]
    assert (await forms.values(), await forms.log()) == (before, [])


async def test_set_value_needs_a_field(forms: Forms) -> None:
    answer = await forms.step({"type": "set_value", "x": 770, "y": 290, "value": "x"})
    assert answer["error"].startswith('set_value: div "Pick me": this is no field')
    answer = await forms.step({"type": "set_value", "x": 1300, "y": 290, "value": "x"})
    assert "outside the 1280x720 viewport" in answer["error"]


async def test_set_value_by_ref_until_the_page_is_left(forms: Forms) -> None:
    listed = await _text(forms, {"type": "list_elements"})
    ref = next(line.split(" ")[0] for line in listed.split("\n") if '"Due"' in line)
    action = {"type": "set_value", "ref": ref, "value": "2026-11-29"}
    await forms.do({"type": "scroll", "x": 1240, "y": 600, "dy": 1000}, action)
    assert (await forms.values())["due"] == "2026-11-29"
    await forms.do({"type": "reload"}, {"type": "list_elements"})
    answer = await forms.step(action)
    assert answer["error"] == (
        f'set_value: element "{ref}" is not on this page (any more): look at its elements again'
    )


@pytest.mark.parametrize(
    "fields",
    [{}, {"x": 1}, {"x": 1, "y": 1, "ref": "e1"}, {"ref": "e1", "value": None}, {"ref": ""}],
)
async def test_malformed_set_value_is_refused(forms: Forms, fields: dict[str, Any]) -> None:
    body = {"env_id": forms.env_id, "action": {"type": "set_value", "value": "a", **fields}}
    await forms.client.post("/step", body, status=422)


@pytest.mark.parametrize("x", [170, 300, 385])  # the last one is on the button of a picker
@pytest.mark.parametrize(
    ("field", "text", "kept"),
    [
        ("due", "2026-11-29", "2026-11-29"),
        ("start", "21:30", "21:30"),
        ("month", "2026-11", "2026-11"),
        ("week", "2026-W48", "2026-W48"),
        ("meeting", "2026-11-29T21:30", "2026-11-29T21:30"),
        ("color", "#FF8000", "#ff8000"),
    ],
)
async def test_a_whole_value_can_be_typed(
    forms: Forms, field: str, text: str, kept: str, x: int
) -> None:
    point = {"x": x, "y": ROWS[field]["y"]}
    await forms.do({"type": "click", **point})
    await forms.do({"type": "type", "text": text})
    assert (await forms.values())[field] == kept
    assert await forms.log() == [f"input {field}", f"change {field}"]
    await forms.do({"type": "type", **point, "text": text, "clear_first": True})
    assert (await forms.values())[field] == kept


async def test_a_date_can_be_typed_as_a_person_does(forms: Forms) -> None:
    await forms.do({"type": "type", "x": 175, "y": ROWS["due"]["y"], "text": "11/29/2026"})
    assert (await forms.values())["due"] == "2026-11-29"


async def test_a_date_is_typed_as_text_elsewhere(forms: Forms) -> None:
    await forms.do({"type": "type", **ROWS["name"], "text": "2026-11-29"})
    assert (await forms.values())["name"] == "2026-11-29"
    await forms.do({"type": "type", **ROWS["start"], "text": "2026-11"})
    assert (await forms.values())["month"] == ""


async def test_what_follows_a_whole_value_is_typed(forms: Forms) -> None:
    await forms.do({"type": "type", **ROWS["due"], "text": "2026-11-29\n"})
    await forms.do({"type": "key", "chords": [["Shift", "Tab"]]})
    await forms.do({"type": "type", "text": "7"})
    values = await forms.values()
    assert (values["due"], values["amount"]) == ("2026-11-29", "7")
