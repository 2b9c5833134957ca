"""The shares of a loop's turn, on a machine whose clock moves by work alone."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from firearrow.runtime.loops import new_loop
from firearrow.runtime.turn import (
    HOLD_NS,
    OTHERS,
    SMALL_NS,
    STEP_BOUNDS,
    ChargedCoroutine,
    Pace,
    Share,
    Turn,
    breathe,
    counted,
    families_of_turn,
    mark,
    name_of,
    soon,
    tell_holds,
    watch,
)
from firearrow.telemetry.metrics import Histogram, text
from firearrow.testing.sim.loop import SimLoop

MS = 1_000_000


class Machine:
    """A machine with one thread: work takes CPU time, and time passes while it does."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.cpu_ns = 0
        self.stolen = 0.0
        """The time for which other processes have the CPU for each second that this one has it."""

    def work(self, milliseconds: float) -> None:
        """Take CPU time."""
        self.cpu_ns += int(milliseconds * MS)
        self.loop.now += milliseconds / 1000 * (1 + self.stolen)

    def run(self, main: Callable[[Turn], Awaitable[None]]) -> Turn:
        """Run a coroutine on the watched loop; return the loop's turn."""
        with watch(self.loop, lambda: self.cpu_ns) as turn:
            self.loop.run_until_complete(main(turn))
        return turn


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine."""
    machine = Machine()
    yield machine
    machine.loop.close()


def taken_ms(turn: Turn, share: Share) -> float:
    """The CPU time of a share."""
    return round(turn.steps(share).total * 1000, 6)


async def settle() -> None:
    """Let all that is ready run."""
    for _ in range(5):
        await breathe()


# ---- charging


def test_a_step_is_charged_to_its_share(machine: Machine) -> None:
    async def main(_turn: Turn) -> None:
        soon(Share.PULL, machine.work, 3)
        soon(Share.PULL, machine.work, 2)
        soon(Share.WRITE, machine.work, 1)
        await settle()

    turn = machine.run(main)
    assert (taken_ms(turn, Share.PULL), turn.steps(Share.PULL).count) == (5, 2)
    assert (taken_ms(turn, Share.WRITE), turn.steps(Share.WRITE).count) == (1, 1)


def test_a_mark_is_not_charged(machine: Machine) -> None:
    async def main(_turn: Turn) -> None:
        mark(machine.work, 3)
        await settle()

    turn = machine.run(main)
    assert machine.cpu_ns == 3 * MS
    assert sum(taken_ms(turn, share) for share in Share) == 0


def test_a_step_that_fails_is_charged(machine: Machine) -> None:
    def fail() -> None:
        machine.work(4)
        raise ValueError

    async def main(_turn: Turn) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        soon(Share.PULL, fail)
        await settle()

    assert taken_ms(machine.run(main), Share.PULL) == 4


def test_that_which_is_charged_within_a_step_is_charged_once(machine: Machine) -> None:
    async def main(turn: Turn) -> None:
        def pull() -> None:
            machine.work(2)
            machine.work(5)
            turn.charge(Share.FILTER, 5 * MS)
            machine.work(1)

        soon(Share.PULL, pull)
        await settle()

    turn = machine.run(main)
    assert taken_ms(turn, Share.PULL) == 3
    assert taken_ms(turn, Share.FILTER) == 5
    assert turn.charged_ns == 8 * MS


def test_every_task_is_charged_and_those_that_say_so_to_their_share(machine: Machine) -> None:
    async def work(milliseconds: float) -> None:
        machine.work(milliseconds)
        await asyncio.sleep(0.1)
        machine.work(milliseconds)

    async def main(_turn: Turn) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work(1))
            tasks.create_task(counted(Share.BACKGROUND, work(2)))
            tasks.create_task(counted(Share.LOOKUP, work(4)), name="lookup")

    turn = machine.run(main)
    assert taken_ms(turn, Share.SERVICE) == 2
    assert taken_ms(turn, Share.BACKGROUND) == 4
    assert taken_ms(turn, Share.LOOKUP) == 8


def test_the_step_of_a_cancellation_is_charged(machine: Machine) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            machine.work(6)

    async def main(_turn: Turn) -> None:
        task = asyncio.get_running_loop().create_task(counted(Share.BACKGROUND, work()))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert taken_ms(machine.run(main), Share.BACKGROUND) == 6


def test_a_loop_that_nobody_watches_runs_the_same_and_charges_nothing() -> None:
    ran: list[str] = []

    async def work() -> str:
        await breathe()
        return "task"

    async def main() -> None:
        job = work()
        assert counted(Share.LOOKUP, job) is job
        soon(Share.PULL, ran.append, "soon")
        mark(ran.append, "mark")
        tell_holds()
        ran.append(await job)
        await settle()
        assert list(families_of_turn()) == []

    asyncio.run(main())
    assert sorted(ran) == ["mark", "soon", "task"]


def test_steps_keep_their_order_and_their_context(machine: Machine) -> None:
    ran: list[int] = []

    async def main(_turn: Turn) -> None:
        for number in range(6):
            (mark if number % 2 else partial(soon, Share.PULL))(ran.append, number)
        await settle()

    machine.run(main)
    assert ran == list(range(6))


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, new_loop], ids=["asyncio", "uvloop"])
def test_coroutines_do_on_a_watched_loop_as_on_any(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def value() -> int:
        async with asyncio.timeout(5):
            await asyncio.sleep(0.001)
        return 7

    async def fails() -> None:
        await breathe()
        raise ValueError("seven")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())
            tasks.create_task(value())

    async def never() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.get_running_loop().create_future()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.create_task(value(), name="value") == 7
        with pytest.raises(ValueError, match="seven"):
            await loop.create_task(fails())
        with pytest.raises(TimeoutError):
            await loop.create_task(never())
        with pytest.raises(ExceptionGroup):
            await group()
        early = loop.create_task(value())
        early.cancel()  # before its first step
        assert (await asyncio.gather(early, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        assert sum(await asyncio.gather(value(), counted(Share.LOOKUP, value()))) == 14
        assert await asyncio.wait_for(value(), 5) == 7

    loop = loop_of()
    with watch(loop) as turn, asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert turn.steps(Share.SERVICE).count > 10
    assert turn.steps(Share.LOOKUP).count > 1


def test_a_task_belongs_to_the_share_of_the_task_that_makes_it(machine: Machine) -> None:
    async def part() -> None:
        machine.work(2)

    async def job() -> None:
        await asyncio.gather(part(), part())
        await asyncio.wait_for(part(), 1)
        await asyncio.get_running_loop().create_task(counted(Share.CHANGE, part()))

    async def main(_turn: Turn) -> None:
        await asyncio.get_running_loop().create_task(counted(Share.LOOKUP, job()))
        await asyncio.get_running_loop().create_task(part())

    turn = machine.run(main)
    assert [taken_ms(turn, share) for share in (Share.LOOKUP, Share.CHANGE, Share.SERVICE)] == [6, 2, 2]


def test_a_loop_is_as_before_when_it_is_no_longer_watched(machine: Machine) -> None:
    async def main(_turn: Turn) -> None: ...

    before = machine.loop.get_task_factory()
    machine.run(main)
    assert machine.loop.get_task_factory() == before


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, new_loop], ids=["asyncio", "uvloop"])
def test_a_cancelled_task_leaves_no_cycle(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    class Held:
        """An object that a task holds."""

    async def waits(held: Held) -> None:
        await asyncio.get_running_loop().create_future()
        del held

    async def cancelled() -> "weakref.ref[Held]":
        held = Held()
        task = asyncio.get_running_loop().create_task(waits(held))
        await settle()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return weakref.ref(held)

    async def main() -> None:
        kept = [await cancelled() for _ in range(5)]
        await settle()
        assert [one() for one in kept] == [None] * 5

    loop = loop_of()
    gc.disable()
    try:
        with watch(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())
    finally:
        gc.enable()


def test_a_watched_task_shows_its_name_and_place(machine: Machine) -> None:
    async def waits() -> None:
        await asyncio.sleep(5)

    async def main(_turn: Turn) -> None:
        task = asyncio.get_running_loop().create_task(waits(), name="it waits")
        await settle()
        assert isinstance(task.get_coro(), ChargedCoroutine)
        assert "waits" in repr(task)
        assert [frame.f_code.co_name for frame in task.get_stack()] == ["waits"]
        task.cancel()

    machine.run(main)


def test_the_histogram_has_small_and_large_steps(machine: Machine) -> None:
    lengths = (0.01, 0.099, 0.1, 0.3, 7, 700)

    async def main(_turn: Turn) -> None:
        for milliseconds in lengths:
            soon(Share.PULL, machine.work, milliseconds)
        await settle()

    turn, expected = machine.run(main), Histogram(STEP_BOUNDS)
    for milliseconds in lengths:
        expected.observe(milliseconds / 1000)
    found = turn.steps(Share.PULL)
    assert (found.counts, round(found.total, 9)) == (expected.counts, round(expected.total, 9))
    assert STEP_BOUNDS[0] == SMALL_NS / 1e9


# ---- holds


def held(machine: Machine, *steps: tuple[float, Share], tells: bool = True) -> Turn:
    """A turn after steps of so many milliseconds."""

    async def main(_turn: Turn) -> None:
        if tells:
            tell_holds()
            machine.work(100)  # the end of the start
            await settle()
        for milliseconds, share in steps:
            soon(share, machine.work, milliseconds)
            await settle()

    return machine.run(main)


def test_a_hold_is_counted_and_logged_with_its_function(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        turn = held(machine, (HOLD_NS / MS, Share.PULL), (HOLD_NS / MS - 1, Share.READ))
    assert (turn.holds[Share.PULL], turn.holds[Share.READ], turn.holds[Share.SERVICE]) == (1, 0, 0)
    [line] = caplog.records
    assert "Machine.work held the loop for 20 ms of CPU, a step of share pull" in line.message


def test_the_longest_step_is_kept_with_its_share_and_function(machine: Machine) -> None:
    turn = held(machine, (3, Share.WRITE), (7, Share.PULL), (5, Share.READ))
    assert turn.longest_step.startswith("7.0 ms of CPU, share pull, ")
    assert held(machine, (7, Share.PULL), tells=False).longest_step == ""


def test_a_step_whose_parts_belong_to_several_shares_is_a_hold_of_its_own(machine: Machine) -> None:
    async def main(turn: Turn) -> None:
        tell_holds()
        await settle()

        def pull() -> None:
            for _ in range(3):
                machine.work(6)
                turn.charge(Share.FILTER, 6 * MS)
            machine.work(6)

        soon(Share.PULL, pull)
        await settle()

    turn = machine.run(main)
    assert (turn.holds[Share.PULL], turn.holds[Share.FILTER]) == (1, 0)
    assert (taken_ms(turn, Share.PULL), taken_ms(turn, Share.FILTER)) == (6, 18)


def test_repeated_holds_are_logged_now_and_then(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        turn = held(machine, *[(30, Share.PULL)] * 20)
    assert turn.holds[Share.PULL] == 20
    assert len(caplog.records) == 1, "20 holds within 0.6 s"


def test_a_server_that_starts_logs_no_holds(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        turn = held(machine, (500, Share.SERVICE), tells=False)
    assert turn.holds[Share.SERVICE] == 0
    assert not [line for line in caplog.records if line.name == "firearrow.runtime.turn"]


def test_names_of_what_took_time() -> None:
    class Connection:
        address = "10.0.0.1:4711"

    async def job() -> None: ...

    coroutine = job()
    wrapped = ChargedCoroutine(Turn(lambda: 0), Share.LOOKUP, coroutine)
    try:
        assert name_of(Connection()) == "a request of 10.0.0.1:4711"
        assert name_of(Machine.work) == f"{__name__}.Machine.work"
        assert name_of(partial(partial(held, tells=True), tells=False)) == f"{__name__}.held"
        name = f"test_turn.{job.__qualname__}"
        assert name_of(coroutine) == name_of(wrapped) == name
        with pytest.raises(StopIteration):
            coroutine.send(None)
        assert name_of(coroutine) == name, "also once it has ended"
        assert name_of(object()) == "object"
    finally:
        wrapped.close()


def test_the_metrics_have_every_share(machine: Machine) -> None:
    shown: list[str] = []

    async def main(_turn: Turn) -> None:
        tell_holds()
        await settle()
        soon(Share.PULL, machine.work, 30)
        await settle()
        shown.append("".join(text(families_of_turn())))

    machine.run(main)
    for share in Share:
        assert f'firearrow_share_seconds_count{{share="{share.label}"}}' in shown[0]
    assert 'firearrow_share_seconds_sum{share="pull"} 0.03' in shown[0]
    assert 'firearrow_share_holds_total{share="pull"} 1' in shown[0]


# ---- background work

RUN_S = 20.0


async def scrub(machine: Machine, at_once: int = 1000, milliseconds: float = 0.25) -> None:
    """Background work without end, in small steps."""
    pace = Pace(at_once, rests=True)
    while True:
        machine.work(milliseconds)
        await pace.did()


async def serve(machine: Machine, milliseconds: float = 0.5) -> None:
    """Work that is always ready: a loop that is never idle."""
    while True:
        machine.work(milliseconds)
        await breathe()


async def reads_device(machine: Machine, milliseconds: float = 1) -> None:
    """Background work that waits for a device between two steps."""
    pace = Pace(1, rests=True)
    while True:
        machine.work(milliseconds)
        await asyncio.sleep(0.0002)
        await pace.did()


def parts(machine: Machine, *jobs: Coroutine[Any, Any, None]) -> dict[Share, float]:
    """The parts of the time that the shares take."""

    async def main(_turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(job) for job in jobs[:1]]
        tasks += [loop.create_task(counted(Share.BACKGROUND, job)) for job in jobs[1:]]
        await asyncio.sleep(RUN_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    began = machine.loop.now
    turn = machine.run(main)
    return {share: turn.steps(share).total / (machine.loop.now - began) for share in Share}


async def nothing() -> None:
    """A server that nobody asks anything."""


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_background_work_takes_a_twentieth_of_a_busy_loop(machine: Machine, at_once: int) -> None:
    found = parts(machine, serve(machine), scrub(machine, at_once))
    assert 0.03 < found[Share.BACKGROUND] < 1.2 / (OTHERS + 1)


def test_background_work_that_waits_for_a_device_takes_no_more(machine: Machine) -> None:
    found = parts(machine, serve(machine), reads_device(machine))
    assert 0.03 < found[Share.BACKGROUND] < 1.2 / (OTHERS + 1)


def test_each_of_two_takes_a_twentieth_and_neither_mistakes_the_other_for_idle_time(machine: Machine) -> None:
    found = parts(machine, serve(machine), scrub(machine), reads_device(machine))
    assert 0.06 < found[Share.BACKGROUND] < 2.4 / (OTHERS + 1)


@pytest.mark.parametrize("milliseconds", [2, 5, 10])
def test_small_pieces_beside_long_turns_rest_for_their_own_time(machine: Machine, milliseconds: float) -> None:
    found = parts(machine, serve(machine, milliseconds), scrub(machine, 10, 0.01))
    without_rest = 0.1 / (milliseconds + 0.1)
    assert 0.4 * without_rest < found[Share.BACKGROUND] < 1.2 / (OTHERS + 1)


def test_a_service_that_rests_is_as_quick_beside_long_turns_as_its_pieces_are(machine: Machine) -> None:
    async def flush() -> None:
        pace = Pace(20, rests=True)
        for _ in range(20_000):
            machine.work(0.01)
            await pace.did()

    async def main(_turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        busy = loop.create_task(serve(machine, 2))
        began = loop.time()
        await flush()
        assert loop.time() - began < 3, "200 ms of work in 1,000 pieces, each behind a turn of 2 ms"
        busy.cancel()

    machine.run(main)


@pytest.mark.parametrize("stolen", [0.2, 1.0, 2.0])
def test_background_work_takes_four_tenths_at_most_where_other_processes_have_the_cpu(
    machine: Machine, stolen: float
) -> None:
    machine.stolen = stolen
    found = parts(machine, serve(machine), scrub(machine))
    assert 0.03 < found[Share.BACKGROUND] * (1 + stolen) < 0.4


def test_background_work_is_quick_on_an_idle_loop(machine: Machine) -> None:
    assert parts(machine, nothing(), scrub(machine))[Share.BACKGROUND] > 0.4


def test_a_long_step_of_background_work_does_not_stop_it_for_long(machine: Machine) -> None:
    found = parts(machine, serve(machine), reads_device(machine, 200))
    assert found[Share.BACKGROUND] > 0.2, "a rest is for 20 ms at the most"
