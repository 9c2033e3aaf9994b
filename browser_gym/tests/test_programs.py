"""The programs that `browser-gym` starts as they are."""

import pytest
from typer.testing import CliRunner

from browser_gym.cli import app


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["gym"], "--port"),
        (["prepare-data"], "--gym-url"),
        (["prepare-data", "webvoyager"], "--reference-answers"),
        (["demo"], "--provider"),
        (["bench"], "--rounds"),
    ],
)
def test_a_program_has_its_own_options_and_an_example(command: list[str], option: str) -> None:
    name = " ".join(["browser-gym", *command])
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"usage: {name} ")
    assert option in result.output
    if command != ["prepare-data", "webvoyager"]:
        assert f"{name} -" in result.output.partition("example")[2]
    refused = CliRunner().invoke(app, [*command, "--no-such-option"])
    assert refused.exit_code == 2
    assert f"usage: {name} " in refused.output


def test_its_exit_code_and_its_words_are_passed_on() -> None:
    wrong = [
        "prepare-data",
        "--gym-url",
        "http://127.0.0.1:9",
        "--output",
        "no-such-folder/a.jsonl",
    ]
    result = CliRunner().invoke(app, wrong)
    assert result.exit_code == 1
    assert "error: " in result.output
