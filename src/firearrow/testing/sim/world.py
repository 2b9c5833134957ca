"""One seed, one world.

A ``World`` is a cluster of machines under virtual time. Everything random in it descends from the seed: each
node, the cables and the scenario have a generator of their own, so that adding a draw in one place does not
move the others. A run is repeatable bit for bit; ``world.trace.digest`` says so.

A ``Node`` is a machine: its disk and its clock outlive its process. ``crash`` ends the process and keeps
every byte it wrote; ``power_loss`` also forgets what was not synced, and the machine boots anew (``boot_id``).
Both unplug first and cancel second: ``finally`` blocks run against dead cables and a dead disk. After either,
``node.disk`` and ``node.network`` are new doors for the next process; the old ones stay dead.
"""

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from firearrow.testing.complaints import Complained, hearing
from firearrow.testing.sim.audit import no_outside_effects
from firearrow.testing.sim.clock import SimClock
from firearrow.testing.sim.disk import DiskProfile, SimDisk
from firearrow.testing.sim.disk_image import DiskImage
from firearrow.testing.sim.loop import SimLoop, SimTask, owner_of
from firearrow.testing.sim.network import NodeNetwork, SimNetwork
from firearrow.testing.sim.process import CURRENT, Process
from firearrow.testing.sim.trace import Trace
from firearrow.testing.sim.transport import LinkProfile

T = TypeVar("T")
Program = Callable[["Node"], Coroutine[Any, Any, None]]

_DYING_ROUNDS: Final = 50
_EVENTS_SHOWN: Final = 30


class Node:
    """A machine."""

    disk: SimDisk
    network: NodeNetwork

    def __init__(self, world: "World", name: str, clock: SimClock, profile: DiskProfile) -> None:
        self.name = name
        self.clock = clock
        self.rng = world.split_rng(name)
        self.host = world.network.attach(name)
        self.image = DiskImage(world.split_rng(f"{name}/disk"), world.trace, name, clock)
        self._world = world
        self._profile = profile
        self._program: Program | None = None
        self._main: asyncio.Task[None] | None = None
        self._runs = 0
        self._power_losses = 0
        self._new_process()

    def _new_process(self) -> None:
        self._runs += 1
        self.process = Process(self.name, self._runs)
        self.disk = SimDisk(self.image, self._world.loop, self.process, self._profile)
        self.network = NodeNetwork(self._world.network, self.process)

    @property
    def boot_id(self) -> str:
        """The id of the machine's boot, as Linux has it: another one after every loss of power."""
        return f"boot-{self.host}-{self._power_losses}"

    @property
    def running(self) -> bool:
        """Whether a program runs here."""
        return self._main is not None and not self._main.done()

    def start(self, program: Program) -> None:
        """Boot the machine if need be and run a program on it; a program that fails fails the whole run."""
        assert not self.running, f"{self.name} is already running"
        self._world.network.boot(self.name)
        self._world.trace.add("start", repr(self.process))
        self._program = program
        main = self._world.loop.create_task(program(self), name=self.name, context=self.process.context())
        main.add_done_callback(self._ended)
        self._main = main

    def _ended(self, main: asyncio.Task[None]) -> None:
        if main is self._main and not main.cancelled() and (error := main.exception()) is not None:
            self._world.fail(error)

    async def stop(self) -> None:
        """Ask the program to end, as SIGTERM does, and wait for it; then the process is gone."""
        assert self._main is not None, f"{self.name} is not running"
        self._world.trace.add("stop", repr(self.process))
        main, self._main = self._main, None
        main.cancel()
        await asyncio.wait([main])
        await self._die(power=False)
        if not main.cancelled() and (error := main.exception()) is not None:
            raise error

    async def finished(self) -> None:
        """Wait for the program to end by itself."""
        assert self._main is not None, f"{self.name} is not running"
        await asyncio.wait([self._main])

    async def crash(self) -> None:
        """Kill the process: every byte it handed over stays, every connection ends."""
        self._world.trace.add("crash", repr(self.process))
        await self._die(power=False)

    async def power_loss(self) -> None:
        """Cut the power: unsynced bytes and names survive by luck alone, peers hear nothing."""
        self._world.trace.add("power_loss", repr(self.process))
        await self._die(power=True)

    async def lose_disk(self) -> None:
        """Kill the process and put an empty disk into the machine."""
        self._world.trace.add("lose_disk", repr(self.process))
        await self._die(power=False)
        self.image = DiskImage(self._world.split_rng(f"{self.name}/disk"), self._world.trace, self.name, self.clock)
        self._new_process()

    def take_disk(self, other: "Node") -> None:
        """Put the disk of another machine, which is off, into this one."""
        assert not other.running, f"{other.name} is running"
        self._world.trace.add("take_disk", f"{self.name} {other.name}")
        self.image = other.image
        self._new_process()

    async def restart(self, program: Program | None = None) -> None:
        """Start again after a crash or a stop, by default what ran last."""
        program = program or self._program
        assert program is not None, f"{self.name} never ran"
        if self.running:
            await self.stop()
        self.start(program)

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does: connections stay open, nothing runs."""
        self._world.trace.add("freeze", repr(self.process))
        self._world.loop.freeze(self.process)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._world.trace.add("thaw", repr(self.process))
        self._world.loop.thaw(self.process)

    async def _die(self, *, power: bool) -> None:
        process, loop = self.process, self._world.loop
        process.dead = True
        self._main = None
        self._world.network.unplug(process, power=power)
        self.disk.unplug()
        if power:
            self.image.lose_power()
            self._power_losses += 1
        loop.thaw(process)
        await self._bury(process)
        loop.forget(process)
        self._new_process()

    async def _bury(self, process: Process) -> None:
        """Cancel every task until none is left; what a dying task starts is cancelled too."""
        for _ in range(_DYING_ROUNDS):
            tasks = self._world.loop.tasks_of(process)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
            await asyncio.gather(*(task for task in tasks if task.done()), return_exceptions=True)
        names = ", ".join(task.get_name() for task in self._world.loop.tasks_of(process))
        raise AssertionError(f"tasks of {process} refuse to be cancelled: {names}")


class World:
    """A cluster, from one seed."""

    def __init__(
        self,
        seed: int,
        *,
        links: LinkProfile | None = None,
        disks: DiskProfile | None = None,
        turn_limit: int = 20_000_000,
    ) -> None:
        self.seed = seed
        self.rng = self.split_rng("scenario")
        self.loop = SimLoop(turn_limit=turn_limit)
        self.trace = Trace(self.loop)
        self.network = SimNetwork(self.loop, self.split_rng("network"), self.trace, links or LinkProfile())
        self.nodes: dict[str, Node] = {}
        self._disks = disks or DiskProfile()
        self.expected: tuple[type[BaseException], ...] = ()
        """Exceptions that programs may log, because the scenario orders what causes them."""
        self._failure: BaseException | None = None
        self._closing = False
        self.loop.set_exception_handler(self._on_loop_error)

    def split_rng(self, name: str) -> random.Random:
        """Return the generator of one part of the world."""
        return random.Random(f"{self.seed}/{name}")

    def node(self, name: str, *, skew_ms: int = 0, drift_ppm: float = 0.0, disk: DiskProfile | None = None) -> Node:
        """Add a machine."""
        assert name not in self.nodes, f"there is a node {name} already"
        clock = SimClock(self.loop, skew_ms=skew_ms, drift_ppm=drift_ppm)
        node = self.nodes[name] = Node(self, name, clock, disk or self._disks)
        return node

    def fail(self, error: BaseException) -> None:
        """End the run with this error."""
        if self._failure is None:
            self._failure = error
            if not self._closing:
                self.loop.stop()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        owner = _owner(context)
        if owner is not None and owner.dead:
            return  # what a dying process says against dead cables is no finding
        error = context.get("exception")
        self.fail(error if isinstance(error, BaseException) else AssertionError(context["message"]))

    def _on_complaint(self, words: str, error: BaseException | None) -> None:
        """A program logged an exception: a bug, unless the scenario expects its kind or its process is dying."""
        owner = CURRENT.get(None)
        if (owner is None or not owner.dead) and not isinstance(error, self.expected):
            complaint = Complained(f"{owner or 'the scenario'} logged an exception: {words}")
            complaint.__cause__ = error
            self.fail(complaint)

    def run(self, scenario: Callable[["World"], Awaitable[T]]) -> T:
        """Run a scenario to its end; an unhandled error anywhere in the world is raised from here."""
        collecting = gc.isenabled()
        gc.disable()
        gc.freeze()
        try:
            with no_outside_effects(), hearing(self._on_complaint):
                return self._run(scenario)
        except BaseException as error:
            error.add_note(self._story())
            raise
        finally:
            gc.unfreeze()
            if collecting:
                gc.enable()

    def _run(self, scenario: Callable[["World"], Awaitable[T]]) -> T:
        main = self.loop.create_task(_awaited(scenario(self)), name="scenario")
        try:
            result = self.loop.run_until_complete(main)
        except RuntimeError as error:  # how a stopped loop says that it was stopped
            raise self._failure or error from None
        finally:
            self._close()
        if self._failure is not None:
            raise self._failure
        return result

    def _close(self) -> None:
        """End running programs, and report tasks with unread errors."""
        self._closing = True
        try:
            self.loop.run_until_complete(self._end_everything())
        except (AssertionError, RuntimeError) as error:  # stalled, or tasks that refuse to end
            self.fail(error)
        gc.collect()
        self.loop.close()

    async def _end_everything(self) -> None:
        for node in self.nodes.values():
            await node.crash()
        me = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not me]
        for task in sorted(left, key=hash):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _story(self) -> str:
        events = "\n  ".join(self.trace.tail(_EVENTS_SHOWN))
        return f"seed {self.seed}, {self.loop.now:.3f} virtual seconds, trace {self.trace.digest}\n  {events}"


def _owner(context: dict[str, Any]) -> Process | None:
    for part in (context.get("task"), context.get("future")):
        if isinstance(part, SimTask):
            return part.owner
    if (handle := context.get("handle")) is not None:
        return owner_of(handle)
    owner = context.get("owner")
    return owner if isinstance(owner, Process) else None


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
