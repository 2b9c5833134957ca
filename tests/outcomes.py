"""Adds how many tests of a run passed, failed and were skipped to the file that ``TEST_COUNTS`` names, one line a run.

`.ci/run` sets the variable, and `.ci/counts` adds the lines up. A second run of what failed (``--last-failed``, see
`.ci/twice`) takes the place of the first: its tests are taken off the failures. Processes that a test starts do not
count: the variable ends at this one.
"""

import os
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "TEST_COUNTS"


def pytest_configure(config: pytest.Config) -> None:
    """Listen to reports; of several processes, the one that collects the reports of the others."""
    path = os.environ.pop(VARIABLE, "")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(Path(path), is_second=config.getoption("lf", default=False)))


class _Outcomes:
    """Keeps the outcome of each test; a failure in setup, call or teardown is one failed test."""

    def __init__(self, path: Path, *, is_second: bool) -> None:
        self._path = path
        self._is_second = is_second
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.skipped or report.when == "call":
            self._outcomes.setdefault(report.nodeid, report.outcome)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        found = list(self._outcomes.values())
        again = len(found) if self._is_second else 0
        with self._path.open("a") as file:
            file.write(f"{found.count('passed')} {found.count('failed') - again} {found.count('skipped')}\n")
