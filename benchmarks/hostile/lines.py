"""Common parts of hostile clients: connections, and bytes that are sent as fast as the server takes them."""

import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

WAIT_S: Final = 0.05
PIECE: Final = 1 << 18
OPENED_AT_ONCE: Final = 64
"""Connections that are opened before those that are there are looked at again."""


class Attack(ABC):
    """Something that a hostile client does again and again, as fast as it can."""

    PORT = "client"
    """The port of the broker that it attacks: ``client``, ``log`` for slaves, ``metrics`` for Prometheus."""
    READS = False
    """Whether it reads what the broker answers."""

    def __init__(self, port: int, topic: str) -> None:
        self._port = port
        self._topic = topic
        self.opened = 0
        self.ended = 0
        self.sent = 0
        """Bytes."""

    def connect(self) -> socket.socket:
        """One more connection."""
        one = socket.socket()
        one.setblocking(False)
        if not self.READS:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect_ex(("127.0.0.1", self._port))
        self.opened += 1
        return one

    @abstractmethod
    def step(self) -> None:
        """Do what can be done now; wait for at most ``WAIT_S`` if nothing can."""


class Lines(Attack):
    """Some connections that always have more to say; one that the broker ends is opened anew at once.

    A connection waits only for the broker: until it takes more bytes.
    """

    CONNECTIONS = 8
    READS = True

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._watch = select.epoll()
        self._lines: dict[int, tuple[socket.socket, bytearray, Iterator[bytes]]] = {}

    def step(self) -> None:
        """Say what the broker takes, read what it answers."""
        for _ in range(min(self.CONNECTIONS - len(self._lines), OPENED_AT_ONCE)):
            line = self.connect()
            self._lines[line.fileno()] = (line, bytearray(), self.words())
            events = select.EPOLLOUT | select.EPOLLRDHUP
            self._watch.register(line, events | select.EPOLLIN if self.READS else events)
        for number, event in self._watch.poll(WAIT_S, 256):
            line, unsaid, words = self._lines[number]
            try:
                if event & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                    raise ConnectionResetError
                if event & select.EPOLLIN:
                    line.recv(PIECE)
                if event & select.EPOLLOUT:
                    self._say(line, unsaid, words)
            except BlockingIOError:
                continue
            except OSError:
                line.close()
                del self._lines[number]
                self.ended += 1

    def _say(self, line: socket.socket, unsaid: bytearray, words: Iterator[bytes]) -> None:
        if not unsaid:
            unsaid += next(words, b"")
        if unsaid:
            said = line.send(unsaid)
            del unsaid[:said]
            self.sent += said
        else:  # it has said everything that it says
            self._watch.modify(line, select.EPOLLRDHUP | select.EPOLLIN if self.READS else select.EPOLLRDHUP)

    @abstractmethod
    def words(self) -> Iterator[bytes]:
        """Yield the bytes that a new connection sends, piece by piece."""


class Repeated(Lines):
    """The same requests again and again, made once."""

    CONNECTIONS = 4

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._made = b""

    @abstractmethod
    def made(self) -> bytes:
        """The requests."""

    def words(self) -> Iterator[bytes]:
        """The requests, for ever."""
        self._made = self._made or self.made()
        while True:
            yield self._made


NUMBER: Final = b"N" * 12
TOGETHER: Final = 32


class Numbered(Lines):
    """Requests that differ by a number, which stands in them as ``NUMBER``: making them costs next to nothing."""

    CONNECTIONS = 4
    TOGETHER = TOGETHER

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._number = 0
        self._pattern = self.pattern()

    @abstractmethod
    def pattern(self) -> bytes:
        """A request with ``NUMBER`` in it."""

    def words(self) -> Iterator[bytes]:
        """Requests that nobody has seen yet, for ever."""
        while True:
            first, self._number = self._number, self._number + self.TOGETHER
            numbers = range(first, self._number)
            yield b"".join(self._pattern.replace(NUMBER, b"%012d" % number) for number in numbers)
