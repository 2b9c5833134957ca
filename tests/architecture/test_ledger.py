"""Every row of the ledger names a commit of this history, or says that its commit is gone."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from campaigns.faults.ledger import Ledger, commit, marked

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs/ledger.jsonl"
LAST_GONE = "2026-11-19T06:00:00Z"
"""Rows of commits that were rebased or squashed before they landed are older than this."""


def git(*words: str, at: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def history() -> set[str]:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone does not have the commits that rows name")
    return {name[:12] for name in git("rev-list", "HEAD").split()}


def test_rows_name_commits_of_the_history(history: set[str]) -> None:
    rows = [json.loads(line) for line in LEDGER.read_text().splitlines()]
    wrong = [
        f"line {number}: {row['campaign']} at {row['commit']}"
        for number, row in enumerate(rows, 1)
        if (row["commit"].rstrip("+") in history) == row.get("commit_gone", False)
    ]
    assert not wrong, f"record the rows again at a commit of main, or mark them where their commit is gone: {wrong}"


def test_no_new_row_names_a_commit_that_is_gone() -> None:
    rows = [json.loads(line) for line in LEDGER.read_text().splitlines()]
    gone = [row["at"] for row in rows if row.get("commit_gone")]
    assert len(gone) > 100
    assert max(gone) < LAST_GONE


def test_a_row_whose_commit_is_gone_is_marked_and_another_is_not() -> None:
    rows: list[dict[str, Any]] = [{"commit": "aaaaaaaaaaaa+"}, {"commit": "bbbbbbbbbbbb"}]
    assert [row.get("commit_gone") for row in marked(rows, {"aaaaaaaaaaaa"})] == [None, True]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, in which this process works."""
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@b")
    git("init", "-q", "-b", "main", at=tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    git("add", "-A", at=tmp_path)
    git("commit", "-q", "-m", "Begin", at=tmp_path)
    return tmp_path


def test_pieces_of_another_source_are_not_done(repository: Path) -> None:
    def row(**figures: str) -> None:
        Ledger("a", "rows").add(figures)

    def done() -> list[str]:
        return [entry["piece"] for entry in Ledger("a", "rows").done()]

    at_main = commit()
    row(piece="main")
    git("switch", "-q", "-c", "work", at=repository)
    (repository / "src" / "a.py").write_text("2")
    git("commit", "-q", "-a", "-m", "Change the source", at=repository)
    assert done() == []
    row(piece="changed")
    (repository / "src" / "a.py").write_text("3")
    assert done() == [], "another change, not committed"
    row(piece="work tree")
    git("commit", "-q", "-a", "-m", "Change the source again", at=repository)
    assert done() == ["work tree"], "the same source, now committed"
    (repository / "src" / "new.py").write_text("1")
    assert done() == [], "a new file"
    (repository / "src" / "new.py").unlink()
    git("switch", "-q", "main", at=repository)
    assert done() == ["main"]
    (repository / "rows").write_text(
        "".join(f'{{"campaign": "a", "commit": "{name}", "piece": "old"}}\n' for name in (at_main, f"{at_main}+"))
    )
    assert done() == ["old"], "of old rows, the one whose commit says what the source was"
    git("switch", "-q", "work", at=repository)
    assert done() == []


def test_a_new_row_names_a_commit_that_survives_a_rebase(repository: Path) -> None:
    main = git("rev-parse", "--short=12", "HEAD", at=repository).strip()
    assert commit() == main
    git("switch", "-q", "-c", "work", at=repository)
    (repository / "test.py").write_text("1")
    git("add", "-A", at=repository)
    git("commit", "-q", "-m", "Add a test", at=repository)
    assert commit() == main, "the source is that of main"
    (repository / "src" / "a.py").write_text("2")
    git("commit", "-q", "-a", "-m", "Change the source", at=repository)
    assert commit() == f"{main}+", "a branch may be rebased: the row names the commit of main below it"
    assert Ledger("a", None).add({})["commit"] == f"{main}+"
