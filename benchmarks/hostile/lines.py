"""What hostile clients have in common: connections, and words that they still have to say."""

import socket
from abc import ABC, abstractmethod


class Attack(ABC):
    """Something that is done ten times a second."""

    def __init__(self, port: int, topic: str) -> None:
        self._port = port
        self._topic = topic
        self.opened = 0
        self.ended = 0

    def connect(self) -> socket.socket:
        """One more connection."""
        one = socket.socket()
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect_ex(("127.0.0.1", self._port))
        self.opened += 1
        return one

    @abstractmethod
    def step(self) -> None:
        """Do what it does."""


class Lines(Attack):
    """A few connections, each with bytes that it still has to say; one that the broker ends is opened anew."""

    CONNECTIONS = 8
    OPENED_IN_A_STEP = 1_000_000
    READS = False

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, topic)
        self._lines: dict[socket.socket, bytearray] = {}

    def step(self) -> None:
        """Say what can be said."""
        for _ in range(min(self.CONNECTIONS - len(self._lines), self.OPENED_IN_A_STEP)):
            self._lines[self.connect()] = bytearray()
        for line, unsaid in tuple(self._lines.items()):
            try:
                self._look(line)
                unsaid += self.words(len(unsaid))
                if unsaid:
                    del unsaid[: line.send(unsaid)]
            except BlockingIOError:
                continue
            except OSError:
                line.close()
                del self._lines[line]
                self.ended += 1

    def _look(self, line: socket.socket) -> None:
        """Notice that a connection has ended; read what came only where that is part of the attack."""
        try:
            while True:
                data = line.recv(1 << 16, 0 if self.READS else socket.MSG_PEEK)
                if not data:
                    raise ConnectionResetError
                if not self.READS:
                    return
        except BlockingIOError:
            return

    @abstractmethod
    def words(self, unsaid: int) -> bytes:
        """What to say on a connection on which so many bytes are not said yet."""
