"""What every test may ask for, and what none may leave behind: an exception that a server told its log alone."""

import gc
import signal
import traceback
from collections.abc import Iterator

import pytest
from hypothesis import settings

from campaigns.rotation import files_in_turn
from firearrow.testing.complaints import hearing

pytest_plugins = ["judges.pytest_plugin"]

# A machine that is busy elsewhere says nothing about an example: what must be fast has a benchmark of its own.
settings.register_profile("firearrow", deadline=None)
settings.load_profile("firearrow")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every process of a test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take the files of its turn alone."""
    parser.addoption(
        "--slice", action="store_true", help="of the directories named, only the files whose turn it is at this commit"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the files that are not in turn; a file that was named on the command line is always in turn."""
    if not config.getoption("--slice"):
        return
    files = {str(item.path) for item in items}
    named = {str((config.invocation_params.dir / name.partition("::")[0]).resolve()) for name in config.args}
    taken = files_in_turn(files - named) | named
    config.hook.pytest_deselected(items=[item for item in items if str(item.path) not in taken])
    items[:] = [item for item in items if str(item.path) in taken]


@pytest.fixture(scope="session", autouse=True)
def complaints() -> Iterator[list[str]]:
    """Exceptions of handlers, callbacks and forgotten tasks in this process that no test has answered for yet."""
    heard: list[str] = []

    def hear(words: str, error: BaseException | None) -> None:
        heard.append(words if error is None else f"{words}\n{''.join(traceback.format_exception(error))}")

    with hearing(hear):
        yield heard
        gc.collect()  # a task that nobody awaited speaks when it is collected
    assert not heard, "after the last test: " + "\n".join(heard)


@pytest.fixture(autouse=True)
def nobody_complains(complaints: list[str], request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in whose time a server logged an exception; ``@pytest.mark.complaints("word", ...)`` allows some."""
    yield
    marker = request.node.get_closest_marker("complaints")
    allowed = marker.args if marker else ()
    wrong = [words for words in complaints if not any(word in words for word in allowed)]
    complaints.clear()
    assert not wrong, f"{len(wrong)} exceptions in logs, the first: {wrong[0]}"
