"""The work of a simulated server's steps: lines of Python, for each handle of the loop.

A step is one callback, one step of a task, or one read of a connection. While work is counted each line takes `LINE_S`
of virtual time, wall and CPU. So budgets by time end in a simulation as they do on a machine, only sooner: a piece of
work that lets the loop run after a millisecond does so after 500 lines.

Counted are lines of Python outside the simulator, iterations of comprehensions and generators included; an item that
``sorted``, ``sum``, ``max``, ``min``, ``any`` or ``all`` walks in C, as a line; and `BYTES_A_LINE` bytes of JSON that
are encoded or decoded, as a line. Not counted are copies in C (``list``, ``dict``, ``set``, slices, ``join``), about
10 ns an item, ``in`` of a list, and the growth of a dict: ``python -m benchmarks.size steps`` has these as CPU time.
"""

import asyncio
import builtins
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from firearrow import fastjson
from firearrow.runtime.turn import name_of
from firearrow.testing.sim.endpoint import SimEndpoint
from firearrow.testing.sim.loop import SimLoop, owner_of
from firearrow.testing.sim.process import Process

LINE_S: Final = 2e-6
BYTES_A_LINE: Final = 32
WALKS: Final = (sorted, sum, max, min, any, all)
TIMES: Final = 1.5
"""A step may work so many times as much in a broker four times as large."""
OUTSIDE: Final = ("/testing/sim/", "/tests/", "/logging/")
"""Files whose lines are no work of a server."""

OF_REQUESTS: Final = ("Pieces.data_received", "Lanes._carry_out", "StateFile._save_changes", "Endpoint._flush_all")
"""Steps whose work is that of the request that is made: they are compared request by request."""

Tracer = Callable[[FrameType, str, Any], Any]


class Step(NamedTuple):
    """The most work of the steps of one function while one thing was asked."""

    work: int = 0
    most_in: str = ""
    """The function that had most of it."""


Steps = dict[tuple[str, str], Step]
"""The longest step by act and function."""


class Work:
    """Counts the work of some processes of a world."""

    def __init__(self, loop: SimLoop, processes: tuple[Process, ...]) -> None:
        self.steps: Steps = {}
        self._loop = loop
        self._processes = frozenset(processes)
        self._act = ""
        self._lines: dict[int, int] = {}
        """Lines of the step by code object, which is known by its address: a code object's hash reads all its code."""
        self._codes: dict[int, CodeType] = {}
        self._counted_files: dict[str, bool] = {}
        self._busy = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count within the block."""
        run, call = asyncio.Handle._run, SimEndpoint._call
        count = self._count

        def counted_run(handle: asyncio.Handle) -> None:
            if owner_of(handle) in self._processes and not self._busy:
                count(_of(handle), partial(run, handle))
            else:
                run(handle)

        def counted_call(end: SimEndpoint, callback: Callable[..., Any], *arguments: Any) -> Any:
            if end.process in self._processes and not self._busy:
                return count(_name(callback), partial(call, end, callback, *arguments))
            return call(end, callback, *arguments)

        with ExitStack() as patches:
            patches.enter_context(patch.object(asyncio.Handle, "_run", counted_run))
            patches.enter_context(patch.object(SimEndpoint, "_call", counted_call))
            for walk in WALKS:
                patches.enter_context(patch.object(builtins, walk.__name__, self._walked(walk)))
            for name in ("encode", "decode"):
                patches.enter_context(patch.object(fastjson, name, self._coded(getattr(fastjson, name))))
            yield

    def _walked(self, walk: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of Python's that counts the items that it walks."""

        def counted(*arguments: Any, **options: Any) -> Any:
            if self._busy and len(arguments) == 1 and hasattr(arguments[0], "__len__"):
                self._add(len(arguments[0]))
            return walk(*arguments, **options)

        return counted

    def _coded(self, code: Callable[..., Any]) -> Callable[..., Any]:
        """Return an encoder or decoder that counts the bytes that it makes or reads."""

        def counted(given: Any, *arguments: Any, **options: Any) -> Any:
            made = code(given, *arguments, **options)
            if self._busy:
                self._add(len(made if isinstance(made, bytes) else given) // BYTES_A_LINE)
            return made

        return counted

    def _add(self, lines: int) -> None:
        """Count work in C for the function that calls the one that calls this."""
        code = sys._getframe(2).f_code
        self._codes.setdefault(id(code), code)
        self._lines[id(code)] = self._lines.get(id(code), 0) + lines
        self._loop.now += lines * LINE_S

    @contextmanager
    def act(self, name: str) -> Iterator[None]:
        """Note steps under a name within the block."""
        before, self._act = self._act, name
        try:
            yield
        finally:
            self._act = before

    def _count(self, name: str, step: Callable[[], Any]) -> Any:
        self._busy = True
        lines = self._lines = {}
        tracer = sys.gettrace()
        sys.settrace(self._entered)
        try:
            return step()
        finally:
            sys.settrace(tracer)
            self._busy = False
            if lines:
                code = self._codes[max(lines, key=lambda one: lines[one])]
                file = code.co_filename.rpartition("/")[2].removesuffix(".py")
                self._note(name, Step(sum(lines.values()), f"{file}.{code.co_qualname}"))

    def _note(self, name: str, step: Step) -> None:
        key = (self._act, name)
        if step.work > self.steps.get(key, Step()).work:
            self.steps[key] = step

    def _entered(self, frame: FrameType, _event: str, _argument: object) -> Tracer | None:
        code = frame.f_code
        counts = self._counted_files.get(code.co_filename)
        if counts is None:
            counts = self._counted_files[code.co_filename] = not any(part in code.co_filename for part in OUTSIDE)
        if not counts:
            return None
        if id(code) not in self._codes:
            self._codes[id(code)] = code
        return self._line

    def _line(self, frame: FrameType, event: str, _argument: object) -> Tracer:
        if event == "line":
            code, lines = id(frame.f_code), self._lines
            lines[code] = lines.get(code, 0) + 1
            self._loop.now += LINE_S
        return self._line


def _of(handle: asyncio.Handle) -> str:
    return _name(handle._callback)  # type: ignore[attr-defined] # a handle has no public state


def _name(callback: Any) -> str:
    """Return the name of a function, or of the coroutine whose step a callback is."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return name_of(task.get_coro())
    return name_of(callback)


class Growth(NamedTuple):
    """A step that grows with the tables."""

    act: str
    step: str
    small: int
    large: Step

    def __str__(self) -> str:
        where = f", most in {self.large.most_in}" if self.large.most_in else ""
        return f"{self.act}: {self.step} {self.small} -> {self.large.work}{where}"


def growing(small: Steps, large: Steps, least: int, planted: Collection[str] = ()) -> list[Growth]:
    """Return the steps that work more than `TIMES` as much in the larger broker, and by ``least`` more, worst first.

    A step of a task that goes on beside requests is compared with the longest of its name in the smaller broker, but
    for those of ``planted`` acts, which are compared with themselves.
    """
    by_name: dict[str, int] = {}
    for (act, name), step in small.items():
        if act not in planted:
            by_name[name] = max(by_name.get(name, 0), step.work)
    found = []
    for (act, name), step in large.items():
        is_own = act in planted or name.endswith(OF_REQUESTS)
        before = small.get((act, name), Step()).work if is_own else by_name.get(name, 0)
        if step.work > TIMES * before and step.work - before > least:
            found.append(Growth(act, name, before, step))
    return sorted(found, key=lambda one: -one.large.work)
