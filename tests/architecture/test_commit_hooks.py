"""The hooks of `.pre-commit-config.yaml`: the tools that CI runs too, and the rule for subjects of commits."""

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]


def hooks() -> list[dict[str, Any]]:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    return [hook for repository in config["repos"] for hook in repository["hooks"]]


def judged(message: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "message"
    file.write_text(message)
    return subprocess.run([ROOT / ".ci/subject", file], capture_output=True, text=True, check=False)


def test_hooks_run_what_make_check_runs() -> None:
    entries = [str(hook["entry"]) for hook in hooks()]
    checked = (ROOT / "Makefile").read_text()
    for entry in entries:
        assert entry == ".ci/subject" or entry.replace(".venv/bin", "$(BIN)") in checked, entry
    assert len(entries) == 4


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Count the tests of all stages\n\nA body follows.\n", ""),
        (f"A{'a' * 70}\n", ""),
        (f"A{'a' * 71}\n", "has 72 characters; keep it under 72"),
        ("count the tests\n", "does not begin with a capital letter"),
        ("Count the tests.\n", "ends with a full stop"),
        ("# a comment of git\n", "does not begin with a capital letter"),
    ],
)
def test_subjects_are_judged(message: str, reason: str, tmp_path: Path) -> None:
    done = judged(message, tmp_path)
    assert (done.returncode == 0) == (not reason)
    assert reason in done.stderr


def test_the_last_commit_would_pass(tmp_path: Path) -> None:
    log = subprocess.run(
        ["git", "log", "-1", "--no-merges", "--format=%B"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert judged(log.stdout, tmp_path).stderr == ""
