"""Every test file is run by `.ci/run`: a suite that no stage names would count as green without being run."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = (".ci/run", ".ci/each-python", ".ci/dist")
FAILING = """#!/bin/sh
echo "$@" >> {words}
for word in "$@"; do case $word in cache_dir=*) cache=${{word#cache_dir=}};; esac; done
mkdir -p "$cache/v/cache"
echo '{{"tests/a/test_it.py::test_it": true}}' > "$cache/v/cache/lastfailed"
exit 1
"""
_IGNORED = re.compile(r"--ignore \S+")


def named_paths() -> set[Path]:
    """The files and folders of tests that a stage names."""
    text = "\n".join(_IGNORED.sub("", (ROOT / script).read_text()) for script in SCRIPTS)
    return {ROOT / word for word in re.findall(r"\btests/[\w/.-]+", text)}


def test_every_test_file_is_run_by_a_stage() -> None:
    named = named_paths()
    left_out = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not named.intersection((path, *path.parents))
    ]
    assert not left_out, f"no stage of .ci/run names {left_out}"


def test_every_path_of_a_stage_exists() -> None:
    assert not [path for path in named_paths() if not path.exists()]


def test_everything_that_failed_is_run_once_more(tmp_path: Path) -> None:
    runner = tmp_path / "runner"
    runner.write_text(FAILING.format(words=tmp_path / "words"))
    runner.chmod(0o755)
    words = [str(ROOT / ".ci" / "twice"), "--slice", "-n", "2", "tests/a", "tests/b"]
    done = subprocess.run(words, env={**os.environ, "PYTEST": str(runner)}, capture_output=True, text=True, check=False)
    first, again = (tmp_path / "words").read_text().splitlines()
    assert first.endswith("--slice -n 2 tests/a tests/b")
    assert "--last-failed" in again
    assert again.endswith("-n 2 tests/a tests/b")
    assert "--slice" not in again, "a part of what failed would be run again, and the rest would count as passed"
    assert done.returncode == 1, "what fails both times fails the run"
