import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources_servers.browser_gym.verification.answer_text import contains, equals
from resources_servers.browser_gym.verification.assertions import (
    MAX_SHOWN_CHARS,
    evaluate,
    parse_assertions,
    shown_value,
)
from resources_servers.browser_gym.verification.checks import State
from resources_servers.browser_gym.verification.errors import InvalidTask, VerifierError
from resources_servers.browser_gym.verification.json_diff import (
    diff_paths,
    json_equal,
    lies_within,
    parse_pointer,
    to_pointer,
)
from resources_servers.browser_gym.verification.storage_checks import MAX_SHOWN_PATHS
from resources_servers.browser_gym.verification.storage_document import parse_document

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.text(), JSON_VALUES, max_size=4)


def stored(document: dict[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in document.items()}


def judge(
    check: dict[str, Any],
    final: dict[str, str],
    initial: dict[str, str] | None = None,
    answer: str = "",
) -> dict[str, Any]:
    [result] = evaluate(
        parse_assertions([{"title": "t", **check}]), State(initial or {}, final, answer)
    )
    return result


def passes(
    check: dict[str, Any],
    final: dict[str, str],
    initial: dict[str, str] | None = None,
    answer: str = "",
) -> bool:
    return judge(check, final, initial, answer)["result"] == "pass"


# The document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("[]", []),
        ("12", 12),
        ("1.50", 1.5),
        ("true", True),
        ("null", None),
        (" null\n", None),
        ('"dark"', '"dark"'),
        ("dark", "dark"),
        ("1,2", "1,2"),
        ("", ""),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1', '{"a": 1'),
        ("[" * 200_000, "[" * 200_000),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_stored_text_is_parsed_only_if_it_is_json_as_a_whole(text: str, value: Any):
    parsed = parse_document({"key": text})["key"]

    assert type(parsed) is type(value)
    assert parsed == value


# Equality and difference


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": 0}, {"a": False}, False),
        (1, 1.0, True),
        (10**400, 10**400, True),
        (10**400, 1.0, False),
        (2**53, float(2**53), True),
        (float("nan"), float("nan"), True),
        (float("nan"), 0.0, False),
        ("1", 1, False),
        (None, False, False),
        (None, "", False),
        ([], {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
    ],
)
def test_equality_is_that_of_json(left: Any, right: Any, same: bool):
    assert json_equal(left, right) is same
    assert json_equal(right, left) is same


def test_the_difference_names_the_deepest_places():
    before = {"a/b": {"~": 1, "gone": {"x": 1}}, "list": [1, {"n": 1}, 3], "type": [1]}
    after = {"a/b": {"~": 2, "new": [1, 2]}, "list": [1, {"n": 2}], "type": {"0": 1}}

    pointers = {to_pointer(path) for path in diff_paths(before, after)}

    assert pointers == {"/a~1b/~0", "/a~1b/gone", "/a~1b/new", "/list/1/n", "/list/2", "/type"}


def test_deep_values_do_not_exhaust_the_stack():
    # About as deep as Python's JSON parser goes.
    one, same, other = (json.loads("[" * 9_000 + end + "]" * 9_000) for end in "112")

    assert json_equal(one, same)
    assert not json_equal(one, other)


@given(JSON_VALUES)
def test_a_value_equals_its_copy(value: Any):
    assert json_equal(value, json.loads(json.dumps(value)))


@given(DOCUMENTS, DOCUMENTS)
def test_nothing_changed_exactly_when_the_documents_are_equal(before: Any, after: Any):
    equal = json_equal(parse_document(stored(before)), parse_document(stored(after)))

    assert passes({"only_changed": []}, stored(after), stored(before)) is equal


@given(DOCUMENTS, DOCUMENTS)
def test_allowing_every_changed_place_passes_and_leaving_one_out_fails(before: Any, after: Any):
    initial, final = stored(before), stored(after)
    pointers = [
        to_pointer(path) for path in diff_paths(parse_document(initial), parse_document(final))
    ]

    assert passes({"only_changed": pointers}, final, initial)
    if pointers:
        assert not passes({"only_changed": pointers[1:]}, final, initial)


@given(st.lists(st.text(), min_size=1).map(tuple))
def test_a_pointer_reads_back_as_its_path(path: tuple[str, ...]):
    assert parse_pointer(to_pointer(path)) == path


@given(st.lists(st.text(), min_size=1).map(tuple), st.lists(st.text()).map(tuple))
def test_what_is_below_a_place_lies_within_it(path: tuple[str, ...], below: tuple[str, ...]):
    assert lies_within(path + below, path)
    assert lies_within(path + below, ("*",) * len(path))
    assert not lies_within(path, (*path, "*"))


# Checks


LEADS = {"crm:leads": json.dumps([{"name": "Ada", "phone": "1"}, {"name": "Bob", "phone": "2"}])}
CALLED = {"crm:leads": json.dumps([{"name": "Ada", "phone": "9"}, {"name": "Bob", "phone": "2"}])}


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        ({"query": '"crm:leads"[?name==`"Ada"`].phone', "equals": ["9"]}, True),
        ({"query": '"crm:leads"[?name==`"Ada"`].phone', "equals": ["1"]}, False),
        ({"query": '"crm:leads"[0].fax', "equals": None}, True),
        ({"query": '"crm:leads"[].name', "unchanged": True}, True),
        ({"query": '"crm:leads"[].phone', "unchanged": True}, False),
        ({"query": '"crm:leads"[1].phone', "equals_initial": '"crm:leads"[1].phone'}, True),
        ({"query": '"crm:leads"[1].phone', "equals_initial": '"crm:leads"[0].phone'}, False),
        ({"query": "length(missing)", "equals": 0}, False),
        ({"query": "sum(values(@)[0])", "equals": 0}, False),
        ({"only_changed": ["/crm:leads/0/phone"]}, True),
        ({"only_changed": ["/crm:leads/*/phone"]}, True),
        ({"only_changed": ["/crm:leads/0"]}, True),
        ({"only_changed": ["/*"]}, True),
        ({"only_changed": ["/crm:leads/1"]}, False),
        ({"only_changed": ["/crm:leads/0/phone/x"]}, False),
        ({"only_changed": ["/crm:lead"]}, False),
        ({"only_changed": []}, False),
    ],
)
def test_checks_on_the_storage(check: dict[str, Any], passed: bool):
    assert passes(check, CALLED, LEADS) is passed


def test_a_true_does_not_pass_for_a_one():
    assert not passes({"query": "done", "equals": True}, {"done": "1"})
    assert passes({"query": "done", "equals": True}, {"done": "true"})


def test_a_new_key_is_covered_only_by_its_own_place():
    final = {**LEADS, "crm:log": '["called"]'}

    assert passes({"only_changed": ["/crm:log"]}, final, LEADS)
    assert not passes({"only_changed": ["/crm:log/0"]}, final, LEADS)


def test_only_changed_tells_what_else_changed_and_how_much_more():
    final = {f"key{index:02}": "1" for index in range(MAX_SHOWN_PATHS + 5)}

    result = judge({"only_changed": ["/key00"]}, final)

    assert result["expected"] == {"only_changed": ["/key00"]}
    assert result["actual"]["also_changed"][0] == "/key01"
    assert result["actual"]["also_changed"][-1] == "and 4 more"


def test_results_keep_order_titles_and_categories():
    assertions = parse_assertions(
        [
            {"title": "b", "category": "form", "query": "x", "equals": 1},
            {"title": "a", "answer_equals": "done"},
        ]
    )

    assert evaluate(assertions, State({}, {"x": "1"}, "Not yet.")) == [
        {"title": "b", "category": "form", "result": "pass", "expected": 1, "actual": 1},
        {"title": "a", "result": "fail", "expected": "done", "actual": "Not yet."},
    ]


@pytest.mark.parametrize("key", ["unchanged", "equals_initial"])
def test_a_query_that_fails_at_the_start_is_no_fault_of_the_model(key: str):
    check = {"query": "length(todos)", key: True if key == "unchanged" else "length(todos)"}

    with pytest.raises(VerifierError, match=r"length\(todos\).*started with"):
        judge(check, {"todos": "[]"}, {})


# What a report shows


@pytest.mark.parametrize(
    "value",
    [
        "x" * 5_000_000,
        list(range(100_000)),
        {"\ud800": "\udfff"},
        [10**30, -(10**30), 2**63 - 1],
        [float("nan")],
    ],
)
def test_shown_values_are_short_and_writable(value: Any):
    shown = shown_value(value)

    text = json.dumps(shown, ensure_ascii=False, allow_nan=False)
    assert len(text.encode("utf-8")) < 2 * MAX_SHOWN_CHARS


def test_a_value_nested_too_deeply_to_write_is_cut():
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]

    assert str(shown_value(deep)).endswith("(cut)")


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "café 🚀", [1, {"a": []}], {"b": "x\n"}])
def test_short_values_are_shown_as_they_are(value: Any):
    assert json_equal(shown_value(value), value)


# Answers


@pytest.mark.parametrize(
    ("answer", "wanted", "found"),
    [
        ("There are 12 leads.", "12", True),
        ("12", "12", True),
        ("12.", "12", True),
        ("12, 13 and 14", "12", True),
        ("$12", "12", True),
        ("12%", "12", True),
        ("(12)", "12", True),
        ("CRM-12", "12", True),
        ("112", "12", False),
        ("120", "12", False),
        ("12.5", "12", False),
        ("3.12", "12", False),
        ("12,000", "12", False),
        ("1,012 or 3,12", "12", False),
        ("-12", "12", False),
        ("It is −12 now", "12", False),
        ("-12", "-12", True),
        ("It is −12 now", "-12", True),
        ("12'500 or 12’500", "12", False),
        ("Don’t panic", "don't panic", True),
        ("“Start­seite”", '"Startseite"', True),
        ("a12", "12", False),
        ("12th", "12", False),
        ("Adam", "Ada", False),
        ("Nevada", "Ada", False),
        ("ADA  \n lovelace's", "Ada Lovelace", True),
        ("Ada\u00a0Lovelace", "Ada Lovelace", True),
        ("Straße", "STRASSE", True),
        ("cafe\u0301", "Café", True),
        ("**Ada**", "Ada", True),
        ("snake_case", "case", False),
        ("C++ is it", "c++", True),
        ("a (x) b", "(x)", True),
        ("", "x", False),
    ],
)
def test_an_answer_contains_whole_words_and_numbers(answer: str, wanted: str, found: bool):
    assert contains(answer, wanted) is found
    assert passes({"answer_contains": [wanted]}, {}, answer=answer) is found


def test_an_answer_contains_every_text():
    check = {"answer_contains": ["Ada", "12"]}

    assert passes(check, {}, answer="Ada has 12.")
    assert not passes(check, {}, answer="Ada has 13.")


@pytest.mark.parametrize(
    ("answer", "wanted", "same"),
    [
        (" 12. ", "12", True),
        ("“Ada   Lovelace”!", "ada lovelace", True),
        ("**Done**", "done", True),
        ("12", "12.5", False),
        (".5", "5", False),
        ("-5", "5", False),
        ("−5", "-5", True),
        ("12%", "12", False),
        ("It is 12", "12", False),
        ("", "12", False),
    ],
)
def test_an_answer_equals_a_text_but_for_case_space_and_punctuation(
    answer: str, wanted: str, same: bool
):
    assert equals(answer, wanted) is same
    assert passes({"answer_equals": wanted}, {}, answer=answer) is same


# Storage shapes of real to-do apps: "buy milk" was to be added and "write tests 🚀" ticked.

DONE = [["buy milk", False], ["write tests 🚀", True]]
TODO_APPS = {
    "a list": (
        {"todos": '[{"title":"buy milk","completed":false},'
                  '{"title":"write tests 🚀","completed":true}]'},
        "todos[].[title, completed]",
    ),
    "other names": (
        {"todo-app": '[{"task":"buy milk","complete":false},'
                     '{"task":"write tests 🚀","complete":true}]'},
        '"todo-app"[].[task, complete]',
    ),
    "nested": (
        {"app": '{"todos":[{"id":1,"title":"buy milk","completed":false},'
                '{"id":2,"title":"write tests 🚀","completed":true}],"nextId":3}'},
        "app.todos[].[title, completed]",
    ),
    "a map by id": (
        {"todos": '{"k2":{"text":"write tests 🚀","done":true},'
                  '"k1":{"text":"buy milk","done":false}}'},
        "sort_by(values(todos), &text)[].[text, done]",
    ),
    "a nested map by id": (
        {"app": '{"todo":{"records":{"x":{"title":"write tests 🚀","isCompleted":true},'
                '"a":{"title":"buy milk","isCompleted":false}}}}'},
        "sort_by(values(app.todo.records), &title)[].[title, isCompleted]",
    ),
    "a key per item and an index": (
        {
            "todos-app": "b-2,a-1",
            "todos-app-b-2": '{"title":"write tests 🚀","completed":true,"id":"b-2"}',
            "todos-app-a-1": '{"title":"buy milk","completed":false,"id":"a-1"}',
        },
        "sort_by(values(@)[?title], &title)[].[title, completed]",
    ),
    "JSON inside a string": (
        {"store": '{"todos":"[{\\"title\\":\\"buy milk\\",\\"completed\\":false},'
                  '{\\"title\\":\\"write tests 🚀\\",\\"completed\\":true}]"}'},
        "from_json(store.todos)[].[title, completed]",
    ),
    "JSON strings in a list": (
        {"store": '["{\\"title\\":\\"buy milk\\",\\"completed\\":false}",'
                  '"{\\"title\\":\\"write tests 🚀\\",\\"completed\\":true}"]'},
        "store[].from_json(@).[title, completed]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", TODO_APPS)
def test_queries_reach_every_shape_of_storage(shape: str):
    storage, query = TODO_APPS[shape]
    unticked = {key: text.replace("true", "false") for key, text in storage.items()}

    assert passes({"query": query, "equals": DONE}, storage)
    assert not passes({"query": query, "equals": DONE}, unticked)
    assert not passes({"query": query, "equals": DONE}, {})


# Mistakes in a task


@pytest.mark.parametrize(
    ("assertions", "message"),
    [
        (None, "assertions: give a list"),
        ([], "assertions: give a list with at least one"),
        (["x"], r"assertions\[0\]: give a JSON object, not str"),
        ([{"query": "a", "equals": 1}], r"assertions\[0\]\.title: give a text"),
        ([{"title": " ", "query": "a", "equals": 1}], r"assertions\[0\]\.title: give a text"),
        ([{"title": "t", "category": 3, "answer_equals": "a"}], r"\.category: give a text"),
        ([{"title": "t"}], r"assertions\[0\] \('t'\): has \[\]; give exactly one check"),
        ([{"title": "t", "query": "a"}], "exactly one check"),
        ([{"title": "t", "equals": 1}], "exactly one check"),
        ([{"title": "t", "query": "a", "equals": 1, "unchanged": True}], "exactly one check"),
        ([{"title": "t", "query": "a", "equls": 1}], "equls"),
        ([{"title": "t", "query": "a[", "equals": 1}], r"\('t'\)\.query: not a JMESPath query"),
        ([{"title": "t", "query": 3, "equals": 1}], r"\.query: give a text"),
        ([{"title": "t", "query": "x[?lenght(@)]", "equals": 1}], r"no function lenght\(\)"),
        ([{"title": "t", "query": "length(a, b)", "equals": 1}], r"takes 1 argument\(s\), not 2"),
        ([{"title": "t", "query": "not_null()", "equals": 1}], r"at least 1 argument\(s\), not 0"),
        ([{"title": "t", "query": "&a", "equals": 1}], "'&' may only stand"),
        ([{"title": "t", "query": "a", "unchanged": False}], r"\.unchanged: only true"),
        ([{"title": "t", "query": "a", "equals_initial": "b["}], r"\.equals_initial: not a JMESP"),
        ([{"title": "t", "only_changed": "/a"}], r"\.only_changed: give a list of JSON Pointers"),
        ([{"title": "t", "only_changed": [""]}], r"\.only_changed: a path starts with '/'"),
        ([{"title": "t", "only_changed": ["/a~b"]}], r"write '~' inside a key as '~0'"),
        ([{"title": "t", "answer_contains": "a"}], r"\.answer_contains: give a list"),
        ([{"title": "t", "answer_contains": []}], r"\.answer_contains: give a list"),
        ([{"title": "t", "answer_contains": ["a", " "]}], r"\.answer_contains: give a text"),
        ([{"title": "t", "answer_equals": "..."}], r"\.answer_equals: give a text with a letter"),
        (
            [{"title": "t", "answer_equals": "a"}, {"title": "t", "answer_equals": "b"}],
            r"assertions\[1\]\.title: 't' is used twice",
        ),
    ],
)
def test_a_mistake_in_a_task_is_named(assertions: Any, message: str):
    with pytest.raises(InvalidTask, match=message):
        parse_assertions(assertions)


def test_functions_that_take_several_arguments_are_accepted():
    parse_assertions([{"title": "t", "query": "not_null(a, b, c)", "equals": 1}])
