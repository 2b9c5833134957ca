"""The shares of a server's work, and the CPU time of its loop by share.

The loop of a server is watched (`watch`): every step of a task, every step given to `soon` and every read of requests
is charged to a share with the CPU time that it took, without that which was charged to other shares within it. A step
that took `HOLD_NS` or more, all within it included, is a hold: counted for its share, and logged with the function that
took it. A loop that nobody watches, as that of a client or of a simulation, runs the same steps in the same order and
charges nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from enum import IntEnum, auto
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from firearrow.runtime.clock import SystemClock
from firearrow.telemetry.damped import DampedEvents
from firearrow.telemetry.metrics import Family, Histogram

log: Final = logging.getLogger(__package__)

T = TypeVar("T")
Args = TypeVarTuple("Args")

HOLD_NS: Final = 20_000_000
"""CPU time of a step that is a hold."""
STEP_BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Bounds of the histogram of steps, in seconds of CPU time."""
SMALL_NS: Final = 100_000
"""Shorter steps are below the first bound: nearly all steps of a loop that does well."""


class Share(IntEnum):
    """A part of a server's work."""

    READ = 0
    """Bytes that were read, and requests that are answered at once: sends, heartbeats, most pulls."""
    WRITE = auto()
    """Writes of the log, and the sends that they answer."""
    ANSWER = auto()
    """Answers that leave together at the end of a turn."""
    PULL = auto()
    """Pulls of a backlog and pulls that were woken."""
    FILTER = auto()
    """Expressions that are compiled and evaluated, within whatever step that happens."""
    LOOKUP = auto()
    """Requests that read the device or look at many things: jobs of lanes that change nothing."""
    CHANGE = auto()
    """Requests that change something and wait for it: jobs of the other lanes, questions of replicas about changes."""
    CONNECTION = auto()
    """Work about many connections or for an ended one that goes on in a later turn; TLS connections that read again."""
    SERVICE = auto()
    """Tasks that a server needs in time: syncs, timers, delayed messages, replication, registration, retention."""
    BACKGROUND = auto()
    """Tasks that may take their time: the scrub, checksums of the log, samples of statistics and of lags."""

    @property
    def label(self) -> str:
        """The name in metrics and logs."""
        return self.name.lower()


class Turn:
    """The CPU time of one server's loop, by share of its work."""

    def __init__(self, cpu_ns: Callable[[], int]) -> None:
        self.cpu_ns: Final = cpu_ns
        self.holds: Final = [0] * len(Share)
        self.charged_ns = 0
        """All CPU time that was charged."""
        self.tells = False
        """Whether holds are counted and logged: a server that starts works for long and keeps nobody waiting."""
        self._taken_ns: Final = [0] * len(Share)
        self._small: Final = [0] * len(Share)
        self._large: Final = [Histogram(STEP_BOUNDS) for _ in Share]
        self.longest_ns = 0
        self.longest_step = ""
        """The longest step since the server serves: its CPU time, share and function; empty before the first."""
        self.task: ChargedCoroutine[Any] | None = None
        """The task whose step runs."""
        self._told: Final = DampedEvents()

    @property
    def background_task(self) -> "ChargedCoroutine[Any] | None":
        """The task whose step runs, if it may take its time."""
        return self.task if self.task is not None and self.task.share is Share.BACKGROUND else None

    def charge(self, share: Share, took_ns: int) -> None:
        """Charge CPU time to a share."""
        self.charged_ns += took_ns
        self._taken_ns[share] += took_ns
        if took_ns < SMALL_NS:
            self._small[share] += 1
        else:
            self._large[share].observe(took_ns / 1e9)

    def charge_step(self, share: Share, took_ns: int, charged_ns: int, of: object) -> int:
        """Charge a step without that which was charged within it; return the CPU time without that.

        ``charged_ns``: what was charged before the step. ``of``: the function, coroutine or connection that took it.
        """
        own_ns = took_ns - (self.charged_ns - charged_ns)
        if own_ns < 0:
            own_ns = 0
        self.charge(share, own_ns)
        if took_ns > self.longest_ns and self.tells:
            self.longest_ns = took_ns
            self.longest_step = f"{took_ns / 1e6:.1f} ms of CPU, share {share.label}, {name_of(of)}"
        if took_ns >= HOLD_NS:
            self._hold(share, took_ns, of)
        return own_ns

    def run(self, share: Share, step: Callable[..., object], args: tuple[object, ...]) -> None:
        """Call a function and charge what it takes."""
        began_ns, charged_ns = self.cpu_ns(), self.charged_ns
        try:
            step(*args)
        finally:
            self.charge_step(share, self.cpu_ns() - began_ns, charged_ns, step)

    def steps(self, share: Share) -> Histogram:
        """Return the steps of a share, in seconds of CPU time."""
        large, found = self._large[share], Histogram(STEP_BOUNDS)
        found.counts[:] = large.counts
        found.counts[0] += self._small[share]
        found.total = self._taken_ns[share] / 1e9
        return found

    def tell(self) -> None:
        """Count and log holds from now on."""
        self.tells = True

    def _hold(self, share: Share, took_ns: int, of: object) -> None:
        if not self.tells:
            return
        self.holds[share] += 1
        times = self._told.count(asyncio.get_running_loop().time())
        if times or log.isEnabledFor(logging.DEBUG):
            name, took_ms = name_of(of), took_ns // 1_000_000
            log.log(
                logging.INFO if times else logging.DEBUG,
                "%s held the loop for %d ms of CPU, a step of share %s; it is to work in smaller pieces",
                name,
                took_ms,
                share.label,
                extra={"share": share.label, "took_ms": took_ms, "of": name, "times": times},
            )

    def families(self) -> Iterator[Family]:
        """Yield the metrics of the turn."""
        steps = [((("share", share.label),), self.steps(share)) for share in Share]
        yield Family("firearrow_share_seconds", "histogram", "CPU time of the steps of a share of the loop", steps)
        holds = [((("share", share.label),), float(self.holds[share])) for share in Share]
        yield Family("firearrow_share_holds_total", "counter", "Steps of 20 ms of CPU or more", holds)


class ChargedCoroutine(Coroutine[object, None, T]):
    """A coroutine whose steps are charged to a share."""

    __slots__ = ("_began_ns", "_of", "_owed_ns", "_turn", "coroutine", "share")

    def __init__(self, turn: Turn, share: Share, coroutine: Coroutine[Any, Any, T], of: object = None) -> None:
        self._turn = turn
        self._of = coroutine if of is None else of
        self._began_ns = self._owed_ns = 0
        self.share = share
        self.coroutine = coroutine

    @property
    def owed_ns(self) -> int:
        """CPU time of background work for which it has not rested, asked for within a step."""
        return self._owed_ns + self._turn.cpu_ns() - self._began_ns

    def take_owed(self) -> int:
        """Return the CPU time of the steps before this one for which it has not rested, and count anew."""
        owed_ns, self._owed_ns = self._owed_ns, 0
        return owed_ns

    def send(self, value: None) -> object:
        """Run the next step."""
        turn, outer = self._turn, self._turn.task
        turn.task, self._began_ns, charged_ns = self, turn.cpu_ns(), turn.charged_ns
        try:
            return self.coroutine.send(value)
        finally:
            turn.task = outer
            self._owed_ns += turn.charge_step(self.share, turn.cpu_ns() - self._began_ns, charged_ns, self._of)

    def throw(
        self,
        error: type[BaseException] | BaseException,
        value: object = None,
        trace: TracebackType | None = None,
        /,
    ) -> object:
        """Run the next step, which begins with an error: the task is cancelled, or what it waited for has failed."""
        turn, outer = self._turn, self._turn.task
        turn.task, self._began_ns, charged_ns = self, turn.cpu_ns(), turn.charged_ns
        try:
            if value is None and trace is None:
                return self.coroutine.throw(error)
            return self.coroutine.throw(error, value, trace)  # type: ignore[arg-type] # asyncio gives one argument
        finally:
            turn.task = outer
            self._owed_ns += turn.charge_step(self.share, turn.cpu_ns() - self._began_ns, charged_ns, self._of)
            del error, value, trace  # an error that holds this frame, which holds the error, would be a cycle

    def close(self) -> None:
        """End the coroutine."""
        self.coroutine.close()

    def __await__(self) -> Generator[Any, None, T]:
        """Run the coroutine as a part of the one that awaits it."""
        return self.coroutine.__await__()

    def __getattr__(self, name: str) -> object:
        """Return what asyncio and debuggers show of a task: its name, and the place where it waits."""
        return getattr(self.coroutine, name)


_turns: Final[dict[asyncio.AbstractEventLoop, Turn]] = {}


@contextmanager
def watch(loop: asyncio.AbstractEventLoop, cpu_ns: Callable[[], int] = SystemClock.cpu_ns) -> Iterator[Turn]:
    """Charge the work of a server's loop within the block.

    A task belongs to the share of the task that makes it, or to `Share.SERVICE`, unless it is `counted`.
    """
    turn, before = Turn(cpu_ns), loop.get_task_factory()
    _turns[loop] = turn

    def new_task(
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **how: Any,  # noqa: ANN401 - what asyncio gives to tasks differs between versions of Python
    ) -> asyncio.Task[Any]:
        if isinstance(coroutine, Coroutine) and not isinstance(coroutine, ChargedCoroutine):
            coroutine = ChargedCoroutine(turn, Share.SERVICE if turn.task is None else turn.task.share, coroutine)
        return asyncio.Task(coroutine, loop=loop, **how)

    loop.set_task_factory(new_task)
    try:
        yield turn
    finally:
        del _turns[loop]
        loop.set_task_factory(before)


def watched() -> Turn | None:
    """Return the turn of the running loop; None for a loop that nobody watches."""
    return _turns.get(asyncio.get_running_loop())


def tell_holds() -> None:
    """Count and log steps that hold the running loop, beginning with the next: the server serves."""
    turn = watched()
    if turn is not None:
        mark(turn.tell)


def families_of_turn() -> Iterator[Family]:
    """Yield the metrics of the running loop's turn; none for a loop that nobody watches."""
    turn = watched()
    if turn is not None:
        yield from turn.families()


def counted(share: Share, coroutine: Coroutine[Any, Any, T], of: object = None) -> Coroutine[Any, Any, T]:
    """Return a coroutine whose steps are charged to a share. ``of``: the coroutine to name where it is not this one."""
    turn = watched()
    return coroutine if turn is None else ChargedCoroutine(turn, share, coroutine, of)


def soon(share: Share, step: Callable[[Unpack[Args]], object], *args: *Args) -> asyncio.Handle:
    """Call a function in the next turn of the running loop, and charge what it takes."""
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        return loop.call_soon(step, *args)
    return loop.call_soon(turn.run, share, step, args)


def in_next_turn(step: Callable[..., object], share: Share | None = None) -> Callable[..., asyncio.Handle]:
    """Return what does `soon` for a step of every turn, or `mark` without a share, at no more than the loop's call.

    Only a mark takes arguments.
    """
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if share is None or turn is None:
        return partial(loop.call_soon, step)
    return partial(loop.call_soon, partial(turn.run, share, step, ()))


def mark(step: Callable[[Unpack[Args]], object], *args: *Args) -> asyncio.Handle:
    """Call a function in the next turn of the loop that only notes that the turn has begun: it is not charged."""
    return asyncio.get_running_loop().call_soon(step, *args)


def name_of(taker: object) -> str:
    """Return the name for a log line of a function, a coroutine or a connection."""
    while isinstance(taker, ChargedCoroutine):
        taker = taker.coroutine
    if isinstance(taker, partial):
        return name_of(taker.func)
    name = getattr(taker, "__qualname__", None)
    if name is None:
        address = getattr(taker, "address", None)
        return f"a request of {address}" if address is not None else type(taker).__name__
    code = getattr(taker, "cr_code", None)
    if code is not None:  # a coroutine that has ended has no frame, and none has a module
        return f"{code.co_filename.rpartition('/')[2].removesuffix('.py')}.{name}"
    return f"{getattr(taker, '__module__', '')}.{name}"
