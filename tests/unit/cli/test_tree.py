"""The whole tree of commands: examples, wrong input, and what every listing offers."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from firearrow.cli.app import COMMANDS, app, load_command, options_first
from firearrow.cli.operate.examples import EXAMPLES
from firearrow.cli.usage import usage_line

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
LISTINGS = {"list", "describe", "route", "get", "query", "by-time"}
"""Words of commands that list something."""


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None or path in ("broker", "nameserver"):
        yield path, command
    for name, child in (children or {}).items():
        yield from leaves(child, f"{path} {name}")


LEAVES = {path: command for name in COMMANDS for path, command in leaves(load_command(name), name)}


@pytest.mark.parametrize("path", LEAVES)
def test_the_help_ends_with_an_example(path: str) -> None:
    assert path in EXAMPLES, "give every command an example in firearrow.cli.operate.examples"
    assert f"Example: {EXAMPLES[path]}" in (LEAVES[path].epilog or "")
    assert f"firearrow {path}" in EXAMPLES[path]


def test_no_example_is_of_a_command_that_is_gone() -> None:
    assert set(EXAMPLES) == set(LEAVES)


@pytest.mark.parametrize("path", sorted(set(LEAVES) - {"pipeline script"}))
def test_the_example_is_a_command_line_that_parses(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREARROW_USER_PASSWORD", "asked for otherwise")
    words = options_first(shlex.split(EXAMPLES[path].rpartition(" | ")[2])[1:])
    words = words[words.index(path.split()[0]) + len(path.split()) :]
    LEAVES[path].make_context(path, words)


@pytest.mark.parametrize("path", LEAVES)
def test_an_option_that_is_not_there_is_one_line_that_says_what_to_do(path: str) -> None:
    line = usage_line(failure([*path.split(), "--no-such-option"]))
    assert len(line.splitlines()) == 1
    assert "--no-such-option" in line
    assert line.endswith("--help` lists commands and options.")


@pytest.mark.parametrize(
    "path", [path for path, command in LEAVES.items() if any(each.required for each in command.params)]
)
def test_an_argument_that_is_missing_is_named_in_one_line(path: str) -> None:
    line = usage_line(failure(path.split()))
    assert len(line.splitlines()) == 1
    assert "Missing" in line
    assert "--help" in line


@pytest.mark.parametrize("path", [path for path in LEAVES if path.split()[-1] in LISTINGS and path != "profile list"])
def test_every_listing_is_shown_as_json_and_again_and_again(path: str) -> None:
    options = {option for each in LEAVES[path].params for option in each.opts}
    assert {"--json", "--watch"} <= options


def test_options_of_a_server_do_not_go_with_commands_about_running_ones() -> None:
    line = usage_line(failure(["broker", "--port", "1", "list"]))
    assert "write `firearrow broker list ...`" in line.replace("root broker", "firearrow broker")


def failure(words: list[str]) -> Exception:
    """The usage error of a command line."""
    with pytest.raises(USAGE_ERROR) as raised:
        app(words, standalone_mode=False, prog_name="firearrow")
    return raised.value
