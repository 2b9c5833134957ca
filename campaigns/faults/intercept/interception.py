"""Every system call of a child that changes its directory, seen before it happens and decided here.

The child installs the filter of `filters` and passes the listener back; the kernel then stops each listed call of any
of its threads and children until this side says what becomes of it: it happens, it fails, it is cut short, or the
process is killed in its place. Calls are numbered in the one order in which they arrive, so a run that is alike twice
can be ended at every point in turn. A short or torn write really writes its part: the bytes are copied from the child
and written through a duplicate of its descriptor.
"""

import array
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from campaigns.faults.intercept.children import Child, fork
from campaigns.faults.intercept.filters import BY_DESCRIPTOR, PATH_ARGUMENT, WRITES, machine, program
from campaigns.faults.writer import Say

_NO_NEW_PRIVILEGES: Final = 38
_SET_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_CONTINUE: Final = 1
_NOTICE: Final = struct.Struct("=QIIiIQ6Q")
_REPLY: Final = struct.Struct("=QqiI")
_PATH_MAX: Final = 4096
_PATIENCE_MS: Final = 10_000


class Point(NamedTuple):
    """A call that is about to change something."""

    number: int
    """From 0, in order of arrival."""
    call: str
    path: str
    """Below the directory."""
    length: int
    """Bytes to be written; 0 for other calls."""


class Kill(NamedTuple):
    """The process dies in place of the call, ``torn`` bytes into a write."""

    torn: int = 0


class Fail(NamedTuple):
    """The call fails with an error number, after ``torn`` bytes of a write."""

    number: int
    torn: int = 0


class Short(NamedTuple):
    """A write writes so many bytes and says so."""

    written: int


Verdict = Kill | Fail | Short | None
Decide = Callable[[Point], Verdict]


class Intercepted(NamedTuple):
    """The outcome of an intercepted run."""

    child: Child
    points: list[Point]
    status: int
    hit: bool
    """Whether anything but letting calls happen was decided."""
    hung: bool
    """Whether it had to be killed because nothing happened for a long time."""
    said_before: int
    """The number of bytes that the child had printed when that was first decided."""


def run_intercepted(work: Callable[[Say], None], root: str, decide: Decide) -> Intercepted:
    """Run ``work`` in a child and ask ``decide`` about every call that changes something below ``root``."""
    ours, theirs = socket.socketpair()
    child = fork(work, lambda: _install(theirs))
    theirs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    listener = _Listener(descriptors[0], child, os.path.realpath(root), decide)
    try:
        listener.run()
    finally:
        os.close(descriptors[0])
    return Intercepted(child, listener.points, child.finish(), listener.hit, listener.hung, listener.said_before)


def _install(channel: socket.socket) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    tables = machine()
    code = program(tables)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = _Program(len(code) // 8, ctypes.addressof(buffer))
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener = libc.syscall(tables.seccomp, _SET_FILTER, _NEW_LISTENER, ctypes.byref(header))
    if listener < 0:
        raise OSError(
            ctypes.get_errno(), "this kernel hands no system calls over: seccomp user notification is missing"
        )
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
    channel.close()


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Notice(NamedTuple):
    id: int
    pid: int
    call: str
    arguments: tuple[int, ...]


class _Listener:
    def __init__(self, listener: int, child: Child, root: str, decide: Decide) -> None:
        self._listener = listener
        self._child = child
        self._root = root
        self._decide = decide
        self._names = {number: name for name, number in machine().calls.items()}
        self._killed = False
        self.points: list[Point] = []
        self.hit = False
        self.hung = False
        self.said_before = 0

    def run(self) -> None:
        """Decide until every process under the filter is gone."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._child.pipe, select.POLLIN)
        while True:
            ready = poll.poll(_PATIENCE_MS)
            if not ready:
                self.hung = self._killed = True
                self._child.kill()
            for descriptor, events in ready:
                if descriptor == self._listener and events & select.POLLHUP:
                    return
                if descriptor == self._listener:
                    self._one()
                elif not self._child.read_waiting():
                    poll.unregister(self._child.pipe)

    def _one(self) -> None:
        data = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, data)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return
            raise
        number, pid, _, call, _, _, *arguments = _NOTICE.unpack(data)
        notice = _Notice(number, pid, self._names[call], tuple(arguments))
        try:
            path = None if self._killed else self._path_of(notice)
            length = len(_bytes_of(notice)) if path is not None and notice.call in WRITES else 0
        except OSError:
            path, length = None, 0  # the process is gone
        if path is None:
            self._pass(notice)
        else:
            self._judge(notice, path, length)

    def _judge(self, notice: _Notice, path: str, length: int) -> None:
        point = Point(len(self.points), notice.call, path, length)
        self.points.append(point)
        verdict = self._decide(point)
        if verdict is None:
            self._reply(notice, 0, 0, _CONTINUE)
            return
        if not self.hit:
            self.hit = True
            self._child.read_waiting()
            self.said_before = len(self._child.output)
        if isinstance(verdict, Short):
            self._reply(notice, _write_part(notice, verdict.written), 0, 0)
            return
        if verdict.torn and length:
            _write_part(notice, min(verdict.torn, length))
        if isinstance(verdict, Kill):
            self._killed = True
            os.kill(self._child.pid, signal.SIGKILL)
            self._pass(notice)
        else:
            self._reply(notice, 0, verdict.number, 0)

    def _pass(self, notice: _Notice) -> None:
        # An answer could still let a call of a killed process happen; a process that syncs for it lives on.
        if not self._killed or _process_of(notice.pid) != self._child.pid:
            self._reply(notice, 0, 0, _CONTINUE)

    def _reply(self, notice: _Notice, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, _REPLY.pack(notice.id, value, -error, flags))
        except OSError as gone:
            if gone.errno != errno.ENOENT:
                raise

    def _path_of(self, notice: _Notice) -> str | None:
        """The path of a call below the root; None when it is elsewhere."""
        if notice.call in BY_DESCRIPTOR:
            path = os.readlink(f"/proc/{notice.pid}/fd/{notice.arguments[0]}").removesuffix(" (deleted)")
        elif notice.call in PATH_ARGUMENT:
            path = _string(notice.pid, notice.arguments[PATH_ARGUMENT[notice.call]])
        else:
            path = os.readlink(f"/proc/{notice.pid}/fd/{notice.arguments[2]}")
        if path != self._root and not path.startswith(f"{self._root}/"):
            return None
        return path[len(self._root) + 1 :]


def _memory(pid: int, address: int, length: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(length)


def _string(pid: int, address: int) -> str:
    # A path may lie at the end of a page whose next one is not there: read up to the page's end, then on.
    text = b""
    while b"\0" not in text and len(text) < _PATH_MAX:
        at = address + len(text)
        text += _memory(pid, at, 4096 - at % 4096)
    return text.split(b"\0", 1)[0].decode()


def _bytes_of(notice: _Notice) -> bytes:
    _, address, count = notice.arguments[:3]
    if notice.call == "pwrite64":
        return _memory(notice.pid, address, count)
    vectors = struct.unpack(f"={2 * count}Q", _memory(notice.pid, address, 16 * count))
    return b"".join(_memory(notice.pid, base, size) for base, size in zip(vectors[::2], vectors[1::2], strict=True))


def _write_part(notice: _Notice, length: int) -> int:
    """Write the beginning of what a call would have written."""
    descriptor = _duplicate(notice)
    try:
        return os.pwrite(descriptor, _bytes_of(notice)[:length], notice.arguments[3])
    finally:
        os.close(descriptor)


def _duplicate(notice: _Notice) -> int:
    process = os.pidfd_open(_process_of(notice.pid))
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = int(libc.syscall(machine().pidfd_getfd, process, notice.arguments[0], 0))
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "cannot duplicate a descriptor of the child")
        return descriptor
    finally:
        os.close(process)


def _process_of(thread: int) -> int:
    """The process of a thread; -1 when it is gone."""
    try:
        with open(f"/proc/{thread}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
    except OSError:
        return -1
