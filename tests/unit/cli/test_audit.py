"""``firearrow audit verify`` on files as they were written, and on files that somebody has changed."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from firearrow.access.audit_lines import ChainEnd, Event, LostEvents
from firearrow.cli.app import app

RUNNER = CliRunner()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with an audit log: three files about allowed requests, one about refused ones."""
    chain, directory = ChainEnd(), tmp_path / "audit"
    directory.mkdir()
    (directory / "notes.txt").write_text("not an audit file")
    for number in range(1, 4):
        events = [Event(5, "User:a", "h:1", "SEND_MESSAGE", ("Topic:t",), allowed=True, why="w") for _ in range(3)]
        lines = [chain.first(number), *map(chain.line, events)]
        (directory / f"audit-{number:08}.jsonl").write_bytes(b"".join(lines))
    chain = ChainEnd()
    lines = [chain.first(1), chain.line(Event(5, None, "h:1", "SEND_MESSAGE", (), allowed=False, why="w"))]
    (directory / "refused-00000001.jsonl").write_bytes(b"".join(lines))
    return tmp_path


def verified(path: Path, *options: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, ["audit", "verify", str(path), *options])
    return result.exit_code, result.output


def test_a_log_as_it_was_written(store: Path) -> None:
    for path in (store, store / "audit"):
        code, said = verified(path)
        assert (code, "12 lines, as they were written; the last is line 12, hash " in said) == (0, True)
    known = msgspec.json.decode(verified(store, "--json")[1])["audit"]["hash"]
    code, said = verified(store, "--hash", known)
    assert (code, f"the hash {known} is in the chain of audit-* (requests that were allowed)" in said) == (0, True)
    first = msgspec.json.decode((store / "audit/audit-00000001.jsonl").read_bytes().splitlines()[0])["hash"]
    assert "audit-* (requests that were allowed) and of refused-* (requests" in verified(store, "--hash", first)[1]
    code, said = verified(store, "--hash", "f" * 64)
    assert (code, "is not in the chain of audit-* and not in that of refused-*: lines were cut" in said) == (1, True)
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


def test_files_about_refusals_are_a_chain_of_their_own(store: Path) -> None:
    chain, why = ChainEnd(), "there were too many"
    lines = [chain.first(1), chain.line(LostEvents(5, 1200, why)), chain.line(LostEvents(6, 30, why))]
    (store / "audit/refused-00000001.jsonl").write_bytes(b"".join(lines))
    code, said = verified(store)
    assert code == 0
    assert "audit: 12 lines, as they were written" in said
    assert "refused: 3 lines, as they were written" in said
    assert "refused: 1230 events are counted and not told: there were too many" in said
    code, said = verified(store, "--hash", chain.hash)
    assert (code, f"{chain.hash} is in the chain of refused-* (requests that were refused)" in said) == (0, True)
    (store / "audit/refused-00000001.jsonl").write_bytes(b"".join([lines[0], lines[2]]))
    code, said = verified(store)
    assert (code, "refused-00000001.jsonl, line 2: lines 2 to 2 are gone" in said) == (1, True)


@pytest.mark.parametrize("which", ["audit", "refused"])
def test_a_set_without_a_file_is_a_fault(store: Path, which: str) -> None:
    known = msgspec.json.decode(verified(store, "--json")[1])[which]["hash"]
    for file in (store / "audit").glob(f"{which}-*"):
        file.unlink()
    code, said = verified(store)
    assert (code, f"{which}-*, line 1: no file of this set is left" in said) == (1, True)
    code, said = verified(store, "--json")
    assert (code, len(msgspec.json.decode(said)[which]["faults"])) == (1, 1)
    code, said = verified(store, "--hash", known)
    assert (code, f"the hash {known} is not in the chain of audit-* and not in that of refused-*" in said) == (1, True)


def test_one_file_is_verified_without_the_other_set(store: Path) -> None:
    code, said = verified(store / "audit/refused-00000001.jsonl", "--hash", "f" * 64)
    assert (code, f"the hash {'f' * 64} is not in the chain of refused-*: lines were cut off" in said) == (1, True)
    code, said = verified(store / "audit/refused-00000001.jsonl")
    assert (code, "audit-*" in said) == (0, False)
