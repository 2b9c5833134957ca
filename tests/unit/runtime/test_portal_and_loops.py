"""The portal serves threads; ``run`` ends on signals with its ``finally`` blocks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from firearrow.errors import PortalClosed
from firearrow.runtime.portal import Portal


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_many_threads_call_at_once() -> None:
    results: list[int] = []
    with Portal() as portal:
        threads = [threading.Thread(target=lambda n=n: results.append(portal.call(double(n)))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert portal.spawn(double(50)).result() == 100
    assert sorted(results) == [2 * n for n in range(20)]


def test_a_timeout_cancels_the_work() -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with Portal() as portal, pytest.raises(TimeoutError):
        portal.call(endless(), timeout_s=0.05)
    assert cancelled.is_set()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_would_end_a_process_reaches_the_caller_and_the_loop_goes_on(error: type[BaseException]) -> None:
    async def end() -> None:
        raise error

    async def end_inside() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(end())

    with Portal() as portal:
        for work in (end, end_inside):
            with pytest.raises(error):
                portal.call(work(), timeout_s=60)
        assert portal.call(double(1), timeout_s=60) == 2


def test_a_call_that_waits_when_the_portal_closes_says_so() -> None:
    portal, is_waiting, said = Portal(), threading.Event(), []

    async def endless() -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(PortalClosed) as told:
            portal.call(endless())
        said.append(str(told.value))

    thread = threading.Thread(target=call)
    thread.start()
    assert is_waiting.wait(60)
    portal.close()
    thread.join(60)
    assert said == ["the portal was closed while this call waited"]


def test_calls_that_race_the_closing_end() -> None:
    for _ in range(50):
        portal, ended = Portal(), list[bool]()

        def call(portal: Portal = portal, ended: list[bool] = ended) -> None:
            try:
                while True:
                    portal.call(double(1), timeout_s=60)
            except PortalClosed:
                ended.append(True)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        portal.close()
        for thread in threads:
            thread.join(60)
        assert len(ended) == len(threads)


def test_a_closed_portal_and_its_own_loop_refuse() -> None:
    portal = Portal()

    async def inside() -> int:
        return portal.call(double(1))

    with pytest.raises(PortalClosed, match="wait for itself"):
        portal.call(inside())
    portal.close()
    portal.close()
    with pytest.raises(PortalClosed, match="is closed"):
        portal.call(double(1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_portal_refuses() -> None:
    with Portal() as portal:
        child = os.fork()
        if child == 0:
            try:
                portal.call(double(1))
            except PortalClosed:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


PROGRAM = """
import asyncio, sys
from firearrow.runtime.garbage_collector import settle
from firearrow.runtime.loops import run

async def main():
    settle()
    print("ready", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        print("ended in order", flush=True)

print("finished by itself" if run(main) else "stopped by a signal")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_program_in_order(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.stdout.read() == "ended in order\nstopped by a signal\n"
        assert child.wait() == 0


WAITING = """
import asyncio
from firearrow.runtime.loops import run

async def main():
    print("ready", flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("waits", flush=True)
        await asyncio.Event().wait()
    finally:
        print("ended in order", flush=True)
        await asyncio.shield(asyncio.sleep(60 if LONG else 0.01))

run(main, waits=True)
"""


@pytest.mark.parametrize(("is_long", "status"), [(False, 0), (True, -signal.SIGTERM)])
def test_a_second_signal_ends_a_wait_in_order_and_a_third_the_process(is_long: bool, status: int) -> None:
    program = f"LONG = {is_long}\n{WAITING}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in ("ready\n", "waits\n", "ended in order\n"):
            assert child.stdout.readline() == line
            if line != "ended in order\n" or is_long:
                child.send_signal(signal.SIGTERM)
        assert child.wait() == status
