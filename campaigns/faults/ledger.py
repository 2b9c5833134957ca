"""The committed record of campaigns: one JSON line for each piece of work done, with commit, seeds and figures.

A campaign asks the ledger what was done with this source and goes on from there, so stopping one loses at most one
piece. ``source`` is git's hash of the files below ``src`` as they were in the work tree: lines are of the same source
if it is equal, whatever their commits are. A line without it is older; it is of this source only if it names this
commit, without a ``+``. Lines are only ever appended. ``commit_gone`` marks a line whose commit was rebased or squashed
before it landed: nobody can check that commit out.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Collection
from tempfile import TemporaryDirectory
from typing import Any, Final

DEFAULT_PATH: Final = "docs/ledger.jsonl"
Figures = dict[str, Any]


def commit() -> str:
    """The newest commit of main below the checked-out commit, with ``+`` if the source that is tested differs from it.

    A branch may be rebased before it lands, and its commits are gone then; those of main stay.
    """
    head = _git("rev-parse", "HEAD")
    base = _git("merge-base", "HEAD", "main") or head
    if not base:
        return "unknown"
    return base[:12] + ("+" if _git("diff", "--name-only", base, "--", "src") else "")


def source() -> str:
    """Git's hash of the files below ``src`` as they are in the work tree, new ones included; empty outside of git."""
    with TemporaryDirectory() as directory:
        index = {"GIT_INDEX_FILE": os.path.join(directory, "index")}
        top = _git("rev-parse", "--show-toplevel") or "."
        _git("-C", top, "add", "--all", "src", **index)
        tree = _git("-C", top, "write-tree", **index)
        return _git("rev-parse", f"{tree}:src")[:12] if tree else ""


def _git(*words: str, **environment: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, check=True, env={**os.environ, **environment}
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def marked(rows: list[Figures], history: Collection[str]) -> list[Figures]:
    """Rows of the ledger, each with ``commit_gone`` if its commit is not in the history (by 12 digits)."""
    return [row if row["commit"].rstrip("+") in history else row | {"commit_gone": True} for row in rows]


def is_of(entry: Figures, named_commit: str, named_source: str) -> bool:
    """Whether something that was recorded is of a source; what is older than sources in records, of a whole commit."""
    if "source" in entry:
        return bool(named_source) and bool(entry["source"] == named_source)
    return not named_commit.endswith("+") and bool(entry["commit"] == named_commit)


class Ledger:
    """The file of one run of one campaign; without a path nothing is kept."""

    def __init__(self, campaign: str, path: str | None) -> None:
        self._campaign = campaign
        self._path = path
        self.commit = commit()
        self.source = source()

    def done(self) -> list[Figures]:
        """The records of this campaign with this source."""
        return [entry for entry in self.recorded() if is_of(entry, self.commit, self.source)]

    def recorded(self) -> list[Figures]:
        """The records of this campaign, at any commit."""
        if self._path is None or not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as lines:
            entries: list[Figures] = [json.loads(line) for line in lines if line.strip()]
        return [entry for entry in entries if entry["campaign"] == self._campaign]

    def add(self, figures: Figures) -> Figures:
        """Record a piece of work; return the whole line."""
        entry = {
            "campaign": self._campaign,
            "commit": self.commit,
            "source": self.source,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}",
        } | figures
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(entry, sort_keys=False) + "\n")
        return entry
