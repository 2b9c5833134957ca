"""An asyncio event loop that owns time.

Tasks, futures, locks, timeouts and task groups are stock asyncio; only the turn of the loop is ours. When
nothing is ready, the clock jumps to the next timer instead of sleeping. Rules that make a run repeatable:

* timers of one instant fire in the order in which they were set; what a timer returns can be cancelled and nothing
  else, since uvloop's have no ``when`` where they are due at once;
* tasks and futures hash by birth, because ``TaskGroup`` and ``asyncio.wait`` keep them in sets and an address
  would order those differently in every process;
* the garbage collector runs at fixed turns only, so that finalizers do;
* threads are refused, and a loop with nothing left to wait for says so at once instead of hanging.

A frozen process's callbacks are put aside when their turn comes and run, in order, when it thaws.
"""

# ruff: noqa: SLF001 - a loop is made of handles, and handles have no public state

import asyncio
import gc
import inspect
import itertools
from asyncio import base_events, events
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, Final, NoReturn, cast

from firearrow.testing.sim.process import CURRENT, Process

TURNS_BETWEEN_COLLECTIONS: Final = 20_000
DUE_AT_ONCE_S: Final = 0.0005
_CANCELLED_TIMERS_KEPT: Final = 100
_WAITING_SHOWN: Final = 20


class SimulationStalled(AssertionError):
    """Every task waits and no timer is set (a deadlock), or the run never ends (a livelock)."""


class SimTask(asyncio.Task[Any]):
    """A task that hashes by birth and knows its process."""

    def __init__(self, birth: int, owner: Process | None, coro: Coroutine[Any, Any, Any], **how: Any) -> None:
        self.birth = birth
        self.owner = owner
        super().__init__(coro, **how)

    def __hash__(self) -> int:
        return self.birth


class SimFuture(asyncio.Future[Any]):
    """A future that hashes by birth."""

    birth = 0

    def __hash__(self) -> int:
        return self.birth


class SimLoop(base_events.BaseEventLoop):
    """Runs asyncio code under virtual time, with no I/O and no threads."""

    _ready: Any  # the stock loop's deque of handles; typeshed does not show it

    def __init__(self, *, turn_limit: int = 20_000_000) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = 0
        self.callbacks = 0
        self._turn_limit = turn_limit
        self._births = itertools.count(1)
        self._sequence = itertools.count()
        self._timers: list[tuple[float, int, Any]] = []
        self._cancelled_timers = 0
        self._frozen = 0
        self._aside: list[asyncio.Handle] = []
        self.set_task_factory(self._new_task)  # type: ignore[arg-type]

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self.now

    # -- what asyncio builds on

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future that hashes by birth."""
        future = SimFuture(loop=self)
        future.birth = next(self._births)
        return future

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer for an instant."""
        # As uvloop does, a timer that is due within half a millisecond comes back as a handle without `when`.
        timer: Any
        if when - self.now <= DUE_AT_ONCE_S:
            timer = events.Handle(callback, args, self, context)
        else:
            timer = events.TimerHandle(when, callback, args, self, context)
            timer._scheduled = True
        heappush(self._timers, (when, next(self._sequence), timer))
        return cast("asyncio.TimerHandle", timer)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        del handle
        self._cancelled_timers += 1  # an estimate: it also counts timers that had already fired
        if self._cancelled_timers > _CANCELLED_TIMERS_KEPT and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapify(self._timers)
            self._cancelled_timers = 0

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Task[Any]:
        context: Context | None = kwargs.get("context")
        owner = CURRENT.get() if context is None else context.get(CURRENT)
        return SimTask(next(self._births), owner, coro, loop=loop, **kwargs)

    # -- one turn

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns % TURNS_BETWEEN_COLLECTIONS == 0:
            self._between_turns()
        ready, timers = self._ready, self._timers
        if not ready:
            self._jump()
            timers = self._timers
        now = self.now
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self._frozen and self._put_aside(handle):
                continue
            self.callbacks += 1
            handle._run()

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if timers:
            self.now = max(self.now, timers[0][0])
        elif not cast("Any", self)._stopping:
            raise SimulationStalled(f"every task waits and no timer is set:\n{self._waiting()}")

    def _between_turns(self) -> None:
        gc.collect(0)
        if self.turns > self._turn_limit:
            where = f"{self.turns} turns, at {self.now:.3f} virtual seconds"
            raise SimulationStalled(f"still running after {where}: a livelock? raise turn_limit if not")

    def _waiting(self) -> str:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        tasks.sort(key=hash)
        lines = [f"  {task.owner or 'scenario'}: {task.get_name()} waits in {_where(task)}" for task in tasks]
        return "\n".join(lines[:_WAITING_SHOWN])

    # -- processes

    def freeze(self, process: Process) -> None:
        """Stop a process's callbacks, as SIGSTOP does."""
        if not process.frozen:
            process.frozen = True
            self._frozen += 1

    def thaw(self, process: Process) -> None:
        """Let a process run again; what came due meanwhile runs first."""
        if process.frozen:
            process.frozen = False
            self._frozen -= 1
            mine = [handle for handle in self._aside if owner_of(handle) is process]
            self._aside = [handle for handle in self._aside if owner_of(handle) is not process]
            self._ready.extend(mine)

    def _put_aside(self, handle: asyncio.Handle) -> bool:
        owner = owner_of(handle)
        if owner is None or not owner.frozen:
            return False
        self._aside.append(handle)
        return True

    def tasks_of(self, process: Process) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks of a process, oldest first."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        return sorted((task for task in tasks if task.owner is process), key=hash)

    def forget(self, process: Process) -> None:
        """Drop every callback and timer of a dead process."""
        timers = [entry[2] for entry in self._timers]
        for handle in itertools.chain(list(self._ready), timers, self._aside):
            if owner_of(handle) is process:
                handle.cancel()
        self._aside = [handle for handle in self._aside if not handle.cancelled()]

    # -- refusals

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> NoReturn:
        """Refuse: a thread would bring real time back in."""
        raise NotImplementedError(f"{func!r} wanted a thread; put it behind a door of firearrow.runtime")

    async def getaddrinfo(self, host: Any, port: Any, **kwargs: Any) -> NoReturn:
        """Refuse: names are resolved by the simulated network."""
        raise NotImplementedError(f"{host}:{port} wanted a name lookup; connect through the network door")

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there are no sockets here."""
        raise NotImplementedError("connect through the network door")

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there are no sockets here."""
        raise NotImplementedError("listen through the network door")

    def _process_events(self, event_list: Any) -> None:
        """Nothing ever comes from outside."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake this one."""


def _where(task: asyncio.Task[Any]) -> str:
    """Return the innermost line at which a task is suspended."""
    waiting: Any = task.get_coro()
    while inspect.iscoroutine(waiting.cr_await):
        waiting = waiting.cr_await
    frame = waiting.cr_frame
    return f"{waiting.__qualname__}, {frame.f_code.co_filename}:{frame.f_lineno}"


def owner_of(handle: asyncio.Handle) -> Process | None:
    """Return the process that a callback belongs to."""
    context: Context = cast("Any", handle)._context
    return context.get(CURRENT)
