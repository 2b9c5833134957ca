"""Three ways from the log to a socket, by the CPU they cost: ``python -m benchmarks.pull``.

``pread`` reads the records into bytes and writes those; ``mapped`` writes a view of a mapping of the file; ``sendfile``
lets the kernel copy, and needs the socket itself, with nothing of the transport's waiting. All three send a header
of 200 bytes first. The receiver is another process. Cold rows drop the file from the page cache before every answer, in
which case a mapping faults on the thread that touches it, and sendfile waits in the kernel: both hold the loop.
CPU rather than time is shown, because it hardly changes with whatever else the machine does; what a cold answer holds
the caller for is in the last column.
"""

import mmap
import os
import socket
import tempfile
import time
from collections.abc import Callable

RECORD = 1200
SIZES = (1, 32, 1000)
HEADER = b"h" * 200
LOG_BYTES = 64 << 20

Send = Callable[[int, int], None]


def main() -> None:
    """Measure and print."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(1 << 20) * (LOG_BYTES >> 20))
        file.flush()
        os.fsync(file.fileno())
        connection, child = receiver()
        mapping = Mapping(file.fileno())
        ways = ways_of(file.fileno(), connection, mapping)
        print(f"{'messages':>8} {'':5} {'way':9} {'CPU us/answer':>14} {'held us p99':>12}")
        for count in SIZES:
            for cold in (False, True):
                for name, send in ways.items():
                    cpu_us, held_us = measure(send, count * RECORD, mapping, cold=cold)
                    print(f"{count:8} {'cold' if cold else 'hot':5} {name:9} {cpu_us:14.1f} {held_us:12.0f}")
        connection.close()
        os.waitpid(child, 0)


class Mapping:
    """The log in memory; `drop` makes it and the page cache forget, which the kernel refuses for pages in use."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.bytes = mmap.mmap(log, LOG_BYTES, prot=mmap.PROT_READ)

    def drop(self) -> None:
        """Forget everything that was read."""
        self.bytes.close()
        os.posix_fadvise(self.log, 0, 0, os.POSIX_FADV_DONTNEED)
        self.bytes = mmap.mmap(self.log, LOG_BYTES, prot=mmap.PROT_READ)


def receiver() -> tuple[socket.socket, int]:
    """A socket whose other end a child process empties."""
    listening = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        with socket.create_connection(listening.getsockname()) as reading:
            while reading.recv(1 << 20):
                pass
        os._exit(0)
    connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.close()
    return connection, child


def ways_of(log: int, connection: socket.socket, mapping: Mapping) -> dict[str, Send]:
    """The three ways to send a range of the log."""

    def pread(at: int, size: int) -> None:
        send_all(connection, [HEADER, os.pread(log, size, at)])

    def view(at: int, size: int) -> None:
        with memoryview(mapping.bytes) as whole, whole[at : at + size] as part:
            send_all(connection, [HEADER, part])

    def sendfile(at: int, size: int) -> None:
        connection.send(HEADER, socket.MSG_MORE)
        end = at + size
        while at < end:
            at += os.sendfile(connection.fileno(), log, at, end - at)

    return {"pread": pread, "mapped": view, "sendfile": sendfile}


def send_all(connection: socket.socket, parts: list[bytes | memoryview]) -> None:
    """Everything, in as few calls as the socket takes."""
    while parts:
        sent = connection.sendmsg(parts)
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts and sent:
            rest = memoryview(parts[0])[sent:]
            send_all(connection, [rest, *parts[1:]])
            rest.release()
            return


def measure(send: Send, size: int, mapping: Mapping, *, cold: bool) -> tuple[float, float]:
    """Microseconds of CPU an answer, and the 99th percentile of how long the caller is held."""
    rounds = max(40, min(2000, (64 << 20) // size)) if not cold else 60
    held = []
    spent = 0.0
    for number in range(rounds):
        at = number * 7919 * 4096 % (LOG_BYTES - size)
        if cold:
            mapping.drop()
        cpu, start = time.process_time(), time.perf_counter()
        send(at, size)
        held.append(time.perf_counter() - start)
        spent += time.process_time() - cpu
    held.sort()
    return spent / rounds * 1e6, held[int(len(held) * 0.99)] * 1e6


if __name__ == "__main__":
    main()
