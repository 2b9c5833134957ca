"""Campaigns as the tests run them: small slices, chosen by the commit, so that every part has its turn."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from campaigns.rotation import turn

PATIENCE = 900
"""Seconds for a slice that takes half a minute on a quiet machine."""
Figures = list[dict[str, Any]]
Campaign = Callable[..., Figures]


@pytest.fixture(scope="session")
def sample() -> int:
    """A number that is another at every commit, for a sample of what no rotation can cover."""
    return turn() or 0


@pytest.fixture
def campaign() -> Campaign:
    """Run a campaign and return the figures of its pieces; fail with its complaints."""

    def run(name: str, *options: str) -> Figures:
        command = [sys.executable, "-m", "campaigns.faults", name, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert ran.returncode == 0, f"{' '.join(options)}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


def need(*tools: str) -> None:
    """Skip where a program is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")
