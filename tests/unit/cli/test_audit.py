"""``firearrow audit verify`` on files as they were written, and on files that somebody has changed."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from firearrow.access.audit_lines import Chain, Event
from firearrow.cli.app import app

RUNNER = CliRunner()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with an audit log of three files."""
    chain, directory = Chain(), tmp_path / "audit"
    directory.mkdir()
    (directory / "notes.txt").write_text("not an audit file")
    for number in range(1, 4):
        events = [Event(5, "User:a", "h:1", "SEND_MESSAGE", ("Topic:t",), allowed=True, why="w") for _ in range(3)]
        lines = [chain.first(number), *map(chain.line, events)]
        (directory / f"audit-{number:08}.jsonl").write_bytes(b"".join(lines))
    return tmp_path


def verified(path: Path, *options: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, ["audit", "verify", str(path), *options])
    return result.exit_code, result.output


def test_a_log_as_it_was_written(store: Path) -> None:
    for path in (store, store / "audit"):
        code, said = verified(path)
        assert (code, "12 lines, as they were written; the last is line 12, hash " in said) == (0, True)
    known = msgspec.json.decode(verified(store, "--json")[1])["hash"]
    assert verified(store, "--hash", known)[0] == 0
    code, said = verified(store, "--hash", "f" * 64)
    assert (code, "is not in the chain" in said) == (1, True)
    code, said = verified(store / "audit/audit-00000002.jsonl")
    assert (code, "begins with line 5" in said) == (0, True)


def test_changes_are_named_with_their_place(store: Path) -> None:
    middle = store / "audit/audit-00000002.jsonl"
    lines = middle.read_bytes().splitlines(keepends=True)
    middle.write_bytes(b"".join([*lines[:2], lines[2].replace(b"User:a", b"User:b"), lines[3]]))
    code, said = verified(store)
    assert (code, "audit-00000002.jsonl, line 3: the line, or the one before it, was changed" in said) == (1, True)
    middle.write_bytes(b"".join([*lines[:2], lines[3]]))
    assert "audit-00000002.jsonl, line 3: lines 7 to 7 are gone" in verified(store)[1]
    middle.write_bytes(b"".join(lines[:2]))
    assert "audit-00000003.jsonl, line 1: 2 lines before this file are gone" in verified(store)[1]
    middle.unlink()
    assert "audit-00000003.jsonl, line 1: 4 lines before this file are gone" in verified(store)[1]


def test_an_unfinished_last_line_is_told_and_is_no_fault(store: Path) -> None:
    last = store / "audit/audit-00000003.jsonl"
    last.write_bytes(last.read_bytes()[:-9])
    code, said = verified(store)
    assert (code, "audit-00000003.jsonl, line 4: unfinished" in said) == (0, True)


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    assert verified(tmp_path / "nowhere")[0] == 2
    code, said = verified(tmp_path)
    assert (code, "there is no audit file" in said) == (2, True)
