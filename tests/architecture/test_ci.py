"""Every test file is run by `.ci/run`, and only tests of real processes may run twice, if a list names them."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.broker.clusters import KINDS
from campaigns.broker.replay import CLIENTS
from campaigns.broker.upkeep import RESIZINGS, WAYS
from campaigns.rotation import CELLS_WITHIN
from campaigns.second_runs import judged, listed
from tests.interop.broker import test_deaths, test_hostile, test_replay
from tests.interop.cli import test_mqadmin
from tests.interop.client import test_kills
from tests.simulation.broker import test_failovers

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = (".ci/run", ".ci/each-python", ".ci/dist")
DETERMINISTIC = ("tests/unit", "tests/property", "tests/architecture", "tests/simulation")
RUNNER = """#!/bin/sh
echo "$@" >> {words}
while [ "$1" != --failures ]; do shift; done
case $2 in
  */first) echo '{first}' > "$2"; exit 1;;
  */second) echo '{second}' > "$2"; exit {status};;
esac
"""
KNOWN = "tests/interop/broker/test_differential.py::test_it[a]"
KNOWN_WORDS = "AssertionError: the brokers answer a send differently"
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


def twice(
    tmp_path: Path, first: dict[str, list[str]], second: dict[str, list[str]], *options: str, skipped: str = ""
) -> tuple[int, str, list[str]]:
    """Run `.ci/twice` with a runner that fails so; return the status, the closing table and the words of each run."""
    runner, record = tmp_path / "runner", tmp_path / "record"
    passed = [test for test in first if test not in second and test != skipped]
    runner.write_text(
        RUNNER.format(
            words=tmp_path / "words",
            first=json.dumps({"failed": first, "passed": []}),
            second=json.dumps({"failed": second, "passed": passed}),
            status=int(bool(second)),
        )
    )
    runner.chmod(0o755)
    environment = {**os.environ, "PYTEST": str(runner), "SECOND_RUNS": str(record)}
    words = [str(ROOT / ".ci" / "twice"), *options, "tests/a", "tests/b"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    table = [sys.executable, "-m", "campaigns.second_runs", "table", str(record)]
    told = subprocess.run(table, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return done.returncode, told, (tmp_path / "words").read_text().splitlines()


@pytest.mark.parametrize("options", [("--slice",), ("--changed", "60")])
def test_everything_that_failed_is_run_once_more(tmp_path: Path, options: tuple[str, ...]) -> None:
    failed = {"tests/a/test_it.py::test_it": ["assert 1 == 2"]}
    status, told, (first, again) = twice(tmp_path, failed, failed, *options, "-n", "2")
    assert first.endswith(f"{' '.join(options)} -n 2 tests/a tests/b")
    assert "--last-failed" in again
    assert again.endswith("none -n 2 tests/a tests/b"), "a part of what failed would be run again, the rest would pass"
    assert status == 1, "what fails both times fails the run"
    assert "FAILED AGAIN: assert 1 == 2" in told


def test_a_second_run_of_a_listed_test_passes_and_is_told_with_the_first_words(tmp_path: Path) -> None:
    status, told, _ = twice(tmp_path, {KNOWN: [KNOWN_WORDS]}, {})
    assert status == 0
    assert "test_differential.py::test_it[a]" in told
    assert f"first: {KNOWN_WORDS}" in told
    assert "known: steps at two brokers" in told


def test_a_second_run_of_a_test_that_is_not_listed_fails_the_run(tmp_path: Path) -> None:
    first = {KNOWN: [KNOWN_WORDS], "tests/interop/test_new.py::test_it": ["assert 5"]}
    status, told, _ = twice(tmp_path, first, {})
    assert status == 1
    assert "passed, BUT IS NOT LISTED in unsteady.toml" in told


def test_a_listed_test_that_is_skipped_in_its_second_run_fails_the_run(tmp_path: Path) -> None:
    status, told, _ = twice(tmp_path, {KNOWN: [KNOWN_WORDS]}, {}, skipped=KNOWN)
    assert status == 1
    assert "DID NOT RUN AGAIN" in told


def test_a_listed_test_that_fails_with_other_words_is_not_known() -> None:
    test = "tests/spark/test_it.py::test_it"
    known, other = "Failed: Timeout (>300.0s) from pytest-timeout.", "teardown: 12 acknowledged messages are lost"
    for words, is_accepted in (([known], True), ([other], False), ([known, other], False)):
        rows = judged({test: words}, {}, [test], listed())
        assert [row.is_accepted for row in rows] == [is_accepted], words


BROKEN = """
import pytest

@pytest.fixture
def store():
    yield
    raise AssertionError("12 acknowledged messages are lost")

def test_two_failures(store):
    assert False, "it took 9 s"

def test_one_that_passes():
    pass

@pytest.mark.skip
def test_one_that_is_skipped():
    pass
"""


def test_every_failure_of_a_run_is_written_and_what_passed(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.failures",
        "--rootdir",
        str(tmp_path),
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [*words, "-c", "/dev/null", "--failures", "told", "test_broken.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    told = json.loads((tmp_path / "told").read_text())
    [(test, failures)] = told["failed"].items()
    assert test == "test_broken.py::test_two_failures"
    assert [failure.partition("\n")[0] for failure in failures] == [
        "AssertionError: it took 9 s",
        "teardown: AssertionError: 12 acknowledged messages are lost",
    ]
    assert told["passed"] == ["test_broken.py::test_one_that_passes"]


def counted(tmp_path: Path, *options: str, status: int) -> str:
    """Run pytest in a directory and end as `.ci/run` does; return the last line that the run prints."""
    words = ["-m", "pytest", "-p", "tests.outcomes", "--rootdir", str(tmp_path), "-c", "/dev/null", "-n", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TEST_COUNTS": str(tmp_path / "counts")}
    cache = ["-o", f"cache_dir={tmp_path / 'cache'}", *options]
    done = subprocess.run(
        [sys.executable, *words, *cache], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == int("--last-failed" not in options), done.stdout.decode()
    end = re.search(r"^close\(\) \{.*?^\}", (ROOT / ".ci" / "run").read_text(), re.MULTILINE | re.DOTALL)
    assert end
    shell = f"set -euo pipefail\nfinish() {{ :; }}\nstarted=0 table= SECOND_RUNS=none\n{end[0]}\ntrap 'close $?' EXIT\n"
    copy = tmp_path / "counts-of-this-end"
    copy.write_bytes((tmp_path / "counts").read_bytes())
    ended = subprocess.run(
        ["bash", "-c", f"{shell}exit {status}"],
        cwd=ROOT,
        env={**environment, "TEST_COUNTS": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, ended.stderr
    assert ("FAILED" in ended.stdout) == (status != 0)
    return ended.stdout.splitlines()[-1]


PYTEST_IN_A_TEST = """
import subprocess
import sys

def test_a_run_inside_a_run(tmp_path):
    (tmp_path / "test_inner.py").write_text("def test_it():\\n    pass\\n")
    runner = [sys.executable, "-m", "pytest", "-p", "tests.outcomes", "-c", "/dev/null", "--rootdir", "."]
    subprocess.run([*runner, "test_inner.py"], cwd=tmp_path, check=True)
"""


def test_the_last_line_counts_the_tests_of_all_runs(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    (tmp_path / "test_inside.py").write_text(PYTEST_IN_A_TEST)
    assert counted(tmp_path, status=1) == "2 passed, 1 failed, 1 skipped"
    assert counted(tmp_path, status=0) == "4 passed, 2 failed, 2 skipped"
    (tmp_path / "test_broken.py").write_text(
        BROKEN.replace("assert False", "assert True").replace("    raise", "    #")
    )
    assert counted(tmp_path, "--last-failed", status=0) == "5 passed, 1 failed, 2 skipped"


def test_every_suite_counts_and_the_count_is_the_last_that_a_run_does() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert "export SECOND_RUNS TEST_COUNTS" in text
    assert "TEST_COUNTS" not in (ROOT / ".ci" / "twice").read_text() + (ROOT / ".ci" / "each-python").read_text()
    assert '"tests.outcomes"' in (ROOT / "tests" / "conftest.py").read_text()


def test_the_words_of_the_list_are_those_of_real_failures() -> None:
    """A pattern holds its example, and the example is the message of an assertion of the test, or a time limit."""
    for entry in listed():
        assert entry.covers(entry.name, entry.example), entry
        if "Timeout (>" in entry.example or entry.example.startswith("TimeoutError: waited "):
            continue
        text = (ROOT / entry.name.partition("::")[0]).read_text()
        said = entry.example.removeprefix("AssertionError: ")
        assert any(re.match(message, said) for message in messages(text)), f"no assertion of {entry.name} says {said}"


def messages(text: str) -> list[str]:
    """The messages of the assertions of a module, as patterns: a value in them may be anything."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) and isinstance(node.msg, ast.JoinedStr | ast.Constant | ast.Call):
            parts = node.msg.values if isinstance(node.msg, ast.JoinedStr) else [node.msg]
            found.append(
                "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in parts)
            )
    return found


def test_the_list_names_tests_of_real_processes_that_exist() -> None:
    for entry in listed():
        file, _, name = entry.name.partition("::")
        assert (ROOT / file).exists(), entry
        assert not name or f"def {name}(" in (ROOT / file).read_text(), entry
        assert not file.startswith(DETERMINISTIC), f"{file} has no real processes: make it steady"
        assert len(entry.cause) > 20, entry
        assert entry.words, f"any failure of {entry.name} would pass"


def test_the_pages_tell_the_slices_that_are_taken() -> None:
    page = (ROOT / "docs" / "how-to" / "campaigns.md").read_text()
    seeds = f"{test_failovers.BATCH} of {test_failovers.BATCHES.stop} seeds, in turn"
    assert len(test_failovers.BATCHES) == CELLS_WITHIN
    assert f"CI takes {seeds}." in (ROOT / "docs" / "how-to" / "run-a-failover-group.md").read_text()
    turn = f"at one turn of {CELLS_WITHIN}"
    rows = {
        "simulated groups that elect their master": seeds,
        "our broker killed": f"each of {len(test_deaths.FILE_SYSTEMS)} file systems {turn}",
        "hostile clients beside stock ones": f"each of {len(test_hostile.HOLDS)} kinds that hold {turn}",
        "clusters of two masters": f"each of {len(KINDS)} kinds {turn}",
        "restarts and changed queues": f"each of {len(WAYS)} restarts and each of {len(RESIZINGS)} changes {turn}",
        "a lone broker killed": f"each of the {len(test_kills.KILLS)} brokers {turn}",
        "groups moved by time": f"each of {len(test_replay.TOOLS) * len(CLIENTS)} pairs",
        "our `mqadmin` beside Apache's": f"each of {len(test_mqadmin.PARTS)} parts of the commands {turn}",
    }
    for what, said in rows.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| {what}")]
        assert said in row, row


def test_only_tests_of_real_processes_run_twice() -> None:
    text = "\n".join((ROOT / script).read_text().replace("\\\n", " ") for script in SCRIPTS)
    lines = [line for line in text.splitlines() if line.strip().startswith(".ci/twice")]
    assert len(lines) >= 5
    wrong = [path for line in lines for path in re.findall(r"\btests/[\w/.-]+", line) if path.startswith(DETERMINISTIC)]
    assert not wrong, f"{wrong} give the same result every time: run them once"
    assert ".ci/twice" not in (ROOT / ".ci" / "each-python").read_text()
