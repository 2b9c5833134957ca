"""Runs syncs off the loop, on the route that ``sync_choice`` chooses, and reports their end.

The side process (``sync_server``) is started off the loop when first needed; until it is ready threads run the
syncs. If it dies with syncs outstanding, those have failed: the kernel may have reported an error to the dead
process.
"""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import sync_server as syncserver
from firearrow.runtime.disk.group_commit import SyncEnded
from firearrow.runtime.disk.sync_choice import SyncChoice, SyncPlace

OUTSTANDING_MAX: Final = 64
END_WAIT_S: Final = 5.0


Spawned = tuple[socket.socket, "subprocess.Popen[bytes]"]


class _Request(NamedTuple):
    descriptor: int
    unsynced: int
    is_directory: bool
    ended: SyncEnded


class SyncProcess:
    """The side process, as the broker's process sees it."""

    def __init__(self, choice: SyncChoice) -> None:
        self._choice = choice
        self._channel: socket.socket | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outstanding: dict[int, _Request] = {}
        self._waiting: deque[_Request] = deque()
        self._number = 0
        self._starting: asyncio.Future[Spawned] | None = None

    @property
    def ready(self) -> bool:
        """Whether the process accepts syncs."""
        return self._channel is not None

    def start(self, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor) -> None:
        """Start the process without waiting."""
        if self._starting is None:
            self._loop = loop
            self._starting = loop.run_in_executor(pool, _spawn)
            self._starting.add_done_callback(self._started)

    def _started(self, spawned: "asyncio.Future[Spawned]") -> None:
        if spawned.cancelled() or spawned.exception() is not None:
            self._choice.no_process()
            return
        channel, self._child = spawned.result()
        assert self._loop is not None
        self._loop.add_reader(channel.fileno(), self._answers)
        self._channel = channel

    def begin(self, request: _Request) -> None:
        """Send a sync request."""
        self._waiting.append(request)
        self._send()

    def _send(self) -> None:
        while self._waiting and self._channel is not None and len(self._outstanding) < OUTSTANDING_MAX:
            request = self._waiting[0]
            self._number += 1
            message = syncserver.REQUEST.pack(self._number, request.is_directory)
            try:
                socket.send_fds(self._channel, [message], [request.descriptor])
            except BlockingIOError:
                return
            except OSError:
                self._died()
                return
            self._outstanding[self._number] = self._waiting.popleft()

    def _answers(self) -> None:
        while self._channel is not None:
            try:
                answer = self._channel.recv(syncserver.ANSWER.size)
            except BlockingIOError:
                break
            except OSError:
                answer = b""
            if not answer:
                self._died()
                return
            self._answered(*syncserver.ANSWER.unpack(answer))
        self._send()

    def _answered(self, number: int, error: int, took: int) -> None:
        request = self._outstanding.pop(number)
        if not request.is_directory:
            self._choice.took(took, request.unsynced)
        request.ended(OSError(error, os.strerror(error)) if error else None)

    def _died(self) -> None:
        self._close_channel()
        self._choice.no_process()
        lost = [*self._outstanding.values(), *self._waiting]
        self._outstanding.clear()
        self._waiting.clear()
        for request in lost:
            request.ended(OSError(errno.EIO, "the process that syncs died, the outcome is unknown"))

    def _close_channel(self) -> None:
        if self._channel is not None:
            assert self._loop is not None
            self._loop.remove_reader(self._channel.fileno())
            self._channel.close()
            self._channel = None

    async def close(self, pool: ThreadPoolExecutor) -> None:
        """Let the process end, and wait for it."""
        if self._starting is not None:
            await asyncio.wait([self._starting])  # also after it has just ended: its callback runs a turn later
        self._close_channel()
        child, self._child = self._child, None
        if child is not None:
            await asyncio.get_running_loop().run_in_executor(pool, _wait, child)


class SyncRoute:
    """Runs syncs on the best route."""

    def __init__(self, clock: Clock, pool: ThreadPoolExecutor, choice: SyncChoice | None = None) -> None:
        self.choice = choice or SyncChoice()
        self._clock = clock
        self._pool = pool
        self._process = SyncProcess(self.choice)

    def begin(self, descriptor: int, unsynced: int, ended: SyncEnded, *, is_directory: bool = False) -> None:
        """Sync a descriptor, which stays open until ``ended`` is called."""
        request = _Request(descriptor, unsynced, is_directory, ended)
        route = self.choice.route(unsynced)
        if route is SyncPlace.INLINE:
            self._inline(request)
        elif route is SyncPlace.PROCESS and self._process.ready:
            self._process.begin(request)
        else:
            loop = asyncio.get_running_loop()
            if route is SyncPlace.PROCESS:
                self._process.start(loop, self._pool)
            self._in_thread(loop, request)

    def _inline(self, request: _Request) -> None:
        start = self._clock.ticks()
        error: OSError | None = None
        try:
            (os.fsync if request.is_directory else os.fdatasync)(request.descriptor)
        except OSError as refused:
            error = refused
        if not request.is_directory:
            self.choice.took(self._clock.ticks() - start, request.unsynced)
        request.ended(error)

    def _in_thread(self, loop: asyncio.AbstractEventLoop, request: _Request) -> None:
        def finished(future: "asyncio.Future[tuple[int, int]]") -> None:
            if future.cancelled() or future.exception() is not None:
                request.ended(OSError(errno.EIO, "the sync was abandoned, its outcome is unknown"))
                return
            error, took = future.result()
            if not request.is_directory:
                self.choice.took(took, request.unsynced)
            request.ended(OSError(error, os.strerror(error)) if error else None)

        def work() -> tuple[int, int]:
            return syncserver.sync(request.descriptor, is_directory=request.is_directory)

        loop.run_in_executor(self._pool, work).add_done_callback(finished)

    async def close(self) -> None:
        """End the side process, if there is one."""
        await self._process.close(self._pool)


def _spawn() -> Spawned:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-I", "-S", syncserver.__file__, str(theirs.fileno())]
        # A session of its own, so that Ctrl-C in the terminal does not end the process.
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)  # noqa: S603
    ours.setblocking(False)
    return ours, child


def _wait(child: "subprocess.Popen[bytes]") -> None:
    try:
        child.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
