"""The option ``--failures FILE`` of the test runner: writes the tests that failed, with words, and those that passed.

The file is JSON: ``failed`` maps a test to the words of every failure that it had, in its setup, its call and its
teardown; ``passed`` lists the tests that ran and had none. A test that was skipped is in neither.
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run write down its failures."""
    parser.addoption(
        "--failures", type=Path, metavar="FILE", help="write which tests failed, with words, and which passed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Listen to reports; of several processes, the one that collects the reports of the others."""
    path = config.getoption("--failures")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(path))


class _Failures:
    """Keeps the failures of each test, and which tests ran."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, list[str]] = {}
        self._passed: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            words = str(crash.message if crash else report.longreprtext)
            told = f"{report.when}: {words}" if report.when != "call" else words
            self._failed.setdefault(report.nodeid, []).append(told)
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        passed = [test for test in self._passed if test not in self._failed]
        self._path.write_text(json.dumps({"failed": self._failed, "passed": passed}))
