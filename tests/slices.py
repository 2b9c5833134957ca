"""The options ``--slice`` and ``--changed`` of the test runner: which tests of the named directories a run takes.

``--slice`` takes the files whose turn it is, the cells whose turn it is (tests marked ``rotating`` have chosen theirs,
see ``campaigns.rotation``) and every file that was named itself. ``--changed SECONDS`` takes the new and changed files
that ``--slice`` leaves out, and one cell of their lists that have none in turn, the newest change first; tests that
have not begun when the seconds are over are skipped and named.
"""

import time
from collections.abc import Generator
from typing import Final

import pytest

from campaigns.rotation import ROOT, Chosen, Share, changed_files, files_in_turn, turn

TIME_IS_OVER: Final = "changed, but not run: the time for changed test files is over"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take a part of the tests."""
    parser.addoption("--slice", action="store_true", help="of the named directories, what is in turn at this commit")
    parser.addoption(
        "--changed",
        type=float,
        metavar="SECONDS",
        help="of the named directories, new and changed files that --slice leaves out, for so many seconds",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say which cells the test modules take; with ``--changed``, limit the time."""
    if config.getoption("--changed") is not None:
        Chosen.share = Share.CHANGED
        config.pluginmanager.register(_Clock(config.getoption("--changed")))
    elif config.getoption("--slice"):
        Chosen.share = Share.IN_TURN


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are not in turn; with ``--changed``, all but the changed ones among those."""
    if config.getoption("--changed") is not None:
        changed = changed_files()
        sliced = _files_of_the_slice(config, items)
        taken = [
            item
            for item in items
            if _file(item) in changed and (_file(item) not in sliced or item.get_closest_marker("rotating"))
        ]
        taken.sort(key=lambda item: changed.index(_file(item)))
    elif config.getoption("--slice"):
        files = _files_of_the_slice(config, items)
        taken = [item for item in items if _file(item) in files or item.get_closest_marker("rotating")]
    else:
        return
    left = set(items) - set(taken)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = taken


def _file(item: pytest.Item) -> str:
    return str(item.path.relative_to(ROOT))


def _files_of_the_slice(config: pytest.Config, items: list[pytest.Item]) -> set[str]:
    named = {str((config.invocation_params.dir / name.partition("::")[0]).resolve()) for name in config.args}
    files = {_file(item) for item in items}
    return files_in_turn(files, turn()) | {_file(item) for item in items if str(item.path) in named}


class _Clock:
    """Skips tests that begin after ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._spent_s = 0.0
        self._left_out: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            self._spent_s += time.monotonic() - begin

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self._spent_s >= self._seconds:
            pytest.skip(TIME_IS_OVER)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and TIME_IS_OVER in report.longreprtext:
            self._left_out.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            terminalreporter.section(TIME_IS_OVER)
            terminalreporter.write("".join(f"{test}\n" for test in self._left_out))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:  # nothing is changed, or all of it was in turn
            session.exitstatus = pytest.ExitCode.OK
