"""The load generator: a process of its own that speaks ready-made frames over raw sockets.

Commands come as lines of JSON on standard input, results go out the same way. Brokers keep one connection each for the
whole run. While routes are looked up, the brokers go on registering, each once in 30 seconds, as in life.

    {"do": "join", "port": 9876}                      all brokers connect and register, one after the other
    {"do": "round", "port": 9876, "edition": 1}       all brokers register once more, over the same connections
    {"do": "lookup", "port": 9876, "seconds": 10, "connections": 64}
"""

import json
import random
import select
import socket
import struct
import sys
import time
from typing import Any

from benchmarks.nameserver.shape import EVERYWHERE, Shape, lookup, topic_name

PERIOD_S = 30.0
EVERYWHERE_CHANCE = 0.001
RECEIVE_BYTES = 1 << 18


class Line:
    """One connection that waits for one answer at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._received = bytearray()

    def send(self, data: bytes) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Read what is there; return a whole frame, or None while it is not whole."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the name server closed a connection")
        if not self._received and len(data) >= 4 and len(data) == 4 + struct.unpack_from(">I", data)[0]:
            return data
        self._received += data
        if len(self._received) < 4 or len(self._received) < 4 + struct.unpack_from(">I", self._received)[0]:
            return None
        whole, self._received = bytes(self._received), bytearray()
        return whole

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        while (answer := self.receive()) is None:
            pass
        return answer


class Generator:
    """The brokers and clients of one cluster."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.registrations = [shape.registration(broker, 1) for broker in range(shape.brokers)]
        self.brokers: dict[int, list[Line]] = {}
        self.lookups = [lookup(topic_name(number)) for number in range(shape.topics)]
        self.everywhere = lookup(EVERYWHERE)
        self.rng = random.Random(1)
        self.due = 0

    def join(self, port: int) -> dict[str, Any]:
        """All brokers connect and register."""
        self.brokers[port] = [Line(port) for _ in range(self.shape.brokers)]
        return self.round(port, 1)

    def round(self, port: int, edition: int) -> dict[str, Any]:
        """All brokers register once."""
        if edition != 1:
            self.registrations = [self.shape.registration(broker, edition) for broker in range(self.shape.brokers)]
        started = time.perf_counter()
        for line, registration in zip(self.brokers[port], self.registrations, strict=True):
            answer = line.ask(registration)
            assert b'"code":0,' in answer, answer
        took = time.perf_counter() - started
        return {"seconds": took, "bytes": sum(map(len, self.registrations))}

    def lookup(self, port: int, seconds: float, connections: int, at_least: int = 0) -> dict[str, Any]:
        """Look routes up, one at a time on each of many connections, while the brokers go on registering.

        With ``at_least`` it goes on for up to four times as long, until so many are answered.
        """
        lines = {line.socket.fileno(): line for line in (Line(port) for _ in range(connections))}
        brokers = {line.socket.fileno(): line for joined in self.brokers.values() for line in joined}
        poll = select.epoll()
        for number in (*lines, *brokers):
            poll.register(number, select.EPOLLIN)
        for line in lines.values():
            line.send(self._next())
        latencies: list[float] = []
        received = registered = 0
        started = next_broker = time.perf_counter()
        deadline = started + seconds
        while (now := time.perf_counter()) < deadline or (len(latencies) < at_least and now < started + 4 * seconds):
            if now >= next_broker:
                self._register_next()
                registered, next_broker = registered + 1, next_broker + PERIOD_S / self.shape.brokers
            for number, _ in poll.poll(0.01):
                client = lines.get(number)
                if client is None:
                    brokers[number].receive()
                    continue
                answer = client.receive()
                if answer is not None:
                    latencies.append(time.perf_counter() - client.sent_at)
                    received += len(answer)
                    client.send(self._next())
        took = time.perf_counter() - started
        for line in lines.values():
            line.socket.close()
        self._settle()
        latencies.sort()
        return {
            "lookups": len(latencies),
            "seconds": took,
            "bytes": received,
            "registrations": registered,
            "p50_ms": latencies[len(latencies) // 2] * 1000,
            "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
        }

    def route(self, port: int, topic: str) -> dict[str, Any]:
        """Look one route up, to compare what the servers say."""
        line = Line(port)
        answer = line.ask(lookup(topic))
        line.socket.close()
        size = struct.unpack_from(">I", answer, 4)[0] & 0xFFFFFF
        return {"body": answer[8 + size :].decode()}

    def _next(self) -> bytes:
        if self.rng.random() < EVERYWHERE_CHANCE:
            return self.everywhere
        return self.lookups[int(self.rng.random() * len(self.lookups))]

    def _register_next(self) -> None:
        # At both servers, because the brokers of the one that is not loaded stay alive too.
        for joined in self.brokers.values():
            joined[self.due].send(self.registrations[self.due])
        self.due = (self.due + 1) % self.shape.brokers

    def _settle(self) -> None:
        # Answers to the last registrations may still be on their way.
        time.sleep(0.2)
        for line in [line for joined in self.brokers.values() for line in joined]:
            line.socket.setblocking(False)
            try:
                while line.receive() is not None:
                    pass
            except BlockingIOError:
                pass
            line.socket.setblocking(True)


def main() -> None:
    """Serve commands until standard input ends."""
    generator = Generator(Shape(*map(int, sys.argv[1:3])))
    for text in sys.stdin:
        command = json.loads(text)
        verb = command.pop("do")
        print(json.dumps(getattr(generator, verb)(**command)), flush=True)


if __name__ == "__main__":
    main()
