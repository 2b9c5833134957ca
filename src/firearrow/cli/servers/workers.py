"""``firearrow broker --workers N``: N brokers on one host, one process a core, under one supervisor.

The workers have one configuration. Worker K has the broker name ``NAME-K``, the store ``STORE/K``, the port
``PORT + 10 K`` and, if there is one, the metrics port ``PORT + K``; all belong to one cluster, so producers and
consumers use all of them. A worker that ends by itself is started again, after a pause that grows (`supervision`).

SIGTERM and SIGINT stop all workers; a second one is passed on and ends their drains, a third kills them. SIGUSR1
and SIGUSR2 go to all of them and change the level of their logs. SIGHUP restarts them one by one:
a worker is asked to stop (with ``--drain`` its producers move to the others first), and the next one waits until it
serves again.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from firearrow.cli.servers.level import Verbosity, tell
from firearrow.cli.servers.supervision import BackOff
from firearrow.errors import SettingsError
from firearrow.runtime.systemd import SOCKET, notify

PORTS_APART: Final = 10
"""Ports from one worker to the next: each uses the ports two below and one above its own, too."""
PORTS_OF_A_WORKER: Final = (-2, 0, 1)
HIGHEST_PORT: Final = 65_535
STOP_S: Final = 30.0
"""Seconds that a worker has to stop after it has drained, before it is killed."""
SECOND: Final = 2
_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_ENDINGS: Final = (signal.SIGTERM, signal.SIGKILL)


class Worker(Struct, frozen=True):
    """The arguments and environment of one worker."""

    number: int
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


class Workers(Struct, frozen=True):
    """The settings that all workers share."""

    count: int
    name: str
    store: str
    port: int
    metrics_port: int | None
    rest: tuple[str, ...]
    """Arguments that every worker gets."""
    log_file: str | None = None
    """Worker K logs to this file with ``.K`` added."""

    def plan(self) -> list[Worker]:
        """Return what each worker is started with; raise ``SettingsError`` for what no worker could start with."""
        self._check_ports()
        if self.log_file is not None and not Path(self.log_file).absolute().parent.is_dir():
            raise SettingsError(f"{self.log_file} cannot be written: there is no such directory; see --log-file")
        return [self._worker(number) for number in range(self.count)]

    def _check_ports(self) -> None:
        used = Counter(
            self.port + PORTS_APART * number + more for number in range(self.count) for more in PORTS_OF_A_WORKER
        )
        if self.metrics_port:
            used.update(range(self.metrics_port, self.metrics_port + self.count))
        if max(used) > HIGHEST_PORT:
            raise SettingsError(f"{self.count} workers need ports up to {max(used)}; choose a lower one with --port")
        port, times = used.most_common(1)[0]
        if times > 1:
            raise SettingsError(f"two workers would listen on port {port}; choose another --metrics-port")

    def _worker(self, number: int) -> Worker:
        own = ["--store", f"{self.store}/{number}", "--port", str(self.port + PORTS_APART * number)]
        if self.metrics_port is not None:
            own += ["--metrics-port", str(self.metrics_port + number if self.metrics_port else 0)]
        if self.log_file is not None:
            own += ["--log-file", f"{self.log_file}.{number}"]
        # A port for slaves in the file would be the same for all: each takes the one after its own.
        environment = {"FIREARROW_BROKER_NAME": f"{self.name}-{number}", "FIREARROW_HA_LISTEN_PORT": "0"}
        return Worker(number, ("broker", *own, *self.rest), environment)


class Supervisor:
    """Runs workers until it is told to stop. ``drain_s`` is how long a worker may drain before it stops."""

    def __init__(self, workers: list[Worker], drain_s: float) -> None:
        self._kept = [_WorkerProcess(worker, drain_s) for worker in workers]
        self._restart: asyncio.Task[None] | None = None
        self._stops = 0

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            loop.add_signal_handler(number, self._pass_on, number)
        async with asyncio.TaskGroup() as group:
            loop.add_signal_handler(signal.SIGHUP, self._begin_restart, group)
            tasks = [group.create_task(kept.keep()) for kept in self._kept]
            tasks.append(group.create_task(self._tell_ready()))
            await stop.wait()
            notify("STOPPING=1")
            loop.remove_signal_handler(signal.SIGHUP)
            if self._restart is not None:
                self._restart.cancel()  # else it would wait for a worker that does not come back
            await asyncio.gather(*(kept.end() for kept in self._kept))
            for task in tasks:
                task.cancel()
        tell(f"all {len(self._kept)} workers have stopped")

    def _stop(self, stop: asyncio.Event) -> None:
        """Let all workers stop in order; at a second signal without draining, and at a third kill them."""
        self._stops += 1
        if self._stops > 1:
            for kept in self._kept:
                kept.send(signal.SIGTERM if self._stops == SECOND else signal.SIGKILL)
        stop.set()

    def _pass_on(self, number: int) -> None:
        """Let all workers change the level of their logs."""
        for kept in self._kept:
            kept.send(number)

    async def _tell_ready(self) -> None:
        for kept in self._kept:
            await kept.wait_until_serving()
        notify("READY=1")

    def _begin_restart(self, group: asyncio.TaskGroup) -> None:
        if self._restart is None or self._restart.done():
            self._restart = group.create_task(self._restart_all())
        else:
            tell("SIGHUP is ignored: a restart of all workers is under way", Verbosity.WARNING)

    async def _restart_all(self) -> None:
        for kept in self._kept:
            await kept.restart()
        tell(f"all {len(self._kept)} workers were restarted")


class _WorkerProcess:
    """One worker and its process."""

    def __init__(self, worker: Worker, drain_s: float) -> None:
        self._worker = worker
        self._patience_s = drain_s + STOP_S
        self._process: asyncio.subprocess.Process | None = None
        self._serves = asyncio.Event()
        self._is_wanted = True
        self._is_asked = False

    async def keep(self) -> None:
        """Start the worker, and start it again whenever it has ended."""
        loop, back_off = asyncio.get_running_loop(), BackOff()
        while self._is_wanted:
            began = loop.time()
            code = await self._run()
            if not self._is_wanted:
                return
            is_asked, self._is_asked = self._is_asked, False
            pause_s = 0.0 if is_asked else back_off.pause(loop.time() - began)
            if not is_asked:
                tell(
                    f"worker {self._worker.number} has ended with {code}; it is started again in {pause_s:g} s",
                    Verbosity.WARNING,
                )
            await asyncio.sleep(pause_s)

    async def _run(self) -> int:
        # The supervisor tells systemd, and it alone.
        environment = {name: value for name, value in os.environ.items() if name != SOCKET}
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "firearrow",
            *self._worker.arguments,
            env={**environment, **self._worker.environment},
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C of a terminal reaches the supervisor alone
            preexec_fn=_end_with_parent,
        )
        assert process.stdout is not None
        async for line in process.stdout:
            print(line.decode(errors="replace"), end="", flush=True)
            if b" serves on " in line:
                self._serves.set()
        self._serves.clear()
        return await process.wait()

    async def wait_until_serving(self) -> None:
        """Wait until the worker serves."""
        await self._serves.wait()

    def kill(self) -> None:
        """End the worker at once, if it runs."""
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        """Send the worker a signal, if it serves or is to end."""
        if self._process is not None and self._runs and (number in _ENDINGS or self._serves.is_set()):
            self._process.send_signal(number)

    @property
    def _runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def restart(self) -> None:
        """Stop the worker in order, and return when it serves again."""
        self._serves.clear()
        if self._runs:  # else it is started again anyway, after its pause
            self._is_asked = True
            await self._stop()
        await self._serves.wait()

    async def end(self) -> None:
        """Stop the worker for good."""
        self._is_wanted = False
        await self._stop()

    async def _stop(self) -> None:
        process = self._process
        if process is None or not self._runs:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self._patience_s):
                await process.wait()
        except TimeoutError:
            tell(
                f"worker {self._worker.number} did not stop in {self._patience_s:g} s and is killed", Verbosity.WARNING
            )
            self.kill()
            await process.wait()


def _end_with_parent() -> None:
    """Let the system stop a worker whose supervisor was killed, so that its ports are free for the next one."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PARENT_DEATH, signal.SIGTERM)
