"""The part of the cases that a run tries when all would take too long: each commit another part, so that all come
round."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ALL = "FIREARROW_ALL_SCENARIOS"


def rotating(kinds: Sequence[str]) -> list[str]:
    """One of these, chosen by the commit; all of them where FIREARROW_ALL_SCENARIOS is set."""
    if os.environ.get(ALL):
        return list(kinds)
    return [kinds[_commit_number() % len(kinds)]]


def _commit_number() -> int:
    words = ["git", "rev-parse", "HEAD"]
    asked = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(asked.stdout[:8], 16) if asked.returncode == 0 else 0
