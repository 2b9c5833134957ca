"""The committed record of campaigns: one JSON line for each piece of work done, with commit, seeds and figures.

A campaign asks the ledger what was done at this commit and goes on from there, so stopping one loses at most the piece
in hand. Lines are only ever appended.
"""

import json
import os
import platform
import subprocess
import time
from typing import Any, Final

DEFAULT_PATH: Final = "docs/ledger.jsonl"
Figures = dict[str, Any]


def commit() -> str:
    """The commit that is being tested, marked when the source differs from it."""
    try:
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", "src"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


class Ledger:
    """The file of one run of one campaign; without a path nothing is kept."""

    def __init__(self, campaign: str, path: str | None) -> None:
        self._campaign = campaign
        self._path = path
        self.commit = commit()

    def done(self) -> list[Figures]:
        """What was recorded of this campaign at this commit."""
        return [entry for entry in self.recorded() if entry["commit"] == self.commit]

    def recorded(self) -> list[Figures]:
        """What was recorded of this campaign, at whatever commit."""
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
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}",
        } | figures
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(entry, sort_keys=False) + "\n")
        return entry
