"""The event loop that a process runs, and the end of the process.

uvloop where it is installed, stock asyncio otherwise. SIGINT and SIGTERM cancel the main coroutine, whose
``finally`` blocks then shut down in order; a second signal ends the process at once. A program that waits before it
shuts down, as a broker that drains, is cancelled by the second signal too, and ended by the third. SIGHUP, which a
closed terminal sends and which makes other servers read their settings again, is logged and ignored.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

from firearrow.runtime.service import watch_for_broken_invariants
from firearrow.runtime.turn import watch

log: Final = logging.getLogger(__name__)
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Callable[[], Coroutine[Any, Any, None]], *, waits: bool = False) -> bool:
    """Run a program with the highest descriptor limit; return False if a signal ended it.

    With ``waits``, the first signal begins a wait, which the second one ends.
    """
    # Imported here, because clients use this module too, also on systems other than Unix.
    from firearrow.runtime.acceptor import raise_descriptor_limit

    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        watch_for_broken_invariants(runner.get_loop())
        with watch(runner.get_loop()):
            return runner.run(_until_signal(main, 2 if waits else 1))


async def _until_signal(main: Callable[[], Coroutine[Any, Any, None]], times: int) -> bool:
    """Run ``main``, which as many signals of a kind cancel; the next one ends the process."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(main(), name="main")
    signalled, left = False, dict.fromkeys(SIGNALS, times)

    def stop(number: signal.Signals) -> None:
        nonlocal signalled
        signalled = True
        task.cancel()
        left[number] -= 1
        if not left[number]:
            loop.remove_signal_handler(number)  # the next signal meets the default handler, which ends the process

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, _hang_up)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise
    finally:
        for number in (*SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)
    return not signalled


def _hang_up() -> None:
    log.warning("SIGHUP is ignored: settings are read at the start; SIGTERM ends the process")
