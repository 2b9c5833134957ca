"""A stranger at the metrics port costs a server little memory and little CPU, and does not keep a scrape out.

The review's attack pipelined 600 MiB of requests over one connection and read no answer: all of it stayed in memory.
"""

import contextlib
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from firearrow.remoting.http_port import HEAD_S, MAX_CONNECTIONS
from firearrow.testing.ports import free_port
from tests.integration.security.test_stranger_cpu import cpu_seconds
from tests.integration.security.victim import MEMORY_BYTES, WAIT_SECONDS, Victim

pytestmark = pytest.mark.real

METRICS_PORT = free_port()
METRICS_ON = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(METRICS_PORT)}
REQUEST = b"GET /metrics HTTP/1.1\r\n\r\n"
PIPELINED_BYTES = 200 << 20
SEND_SECONDS = 5.0
"""A visitor that is not read any more has sent all that it can after so long."""
SHARE_MAX = 0.5
"""The part of a core that pages may take while a stranger asks as fast as it can, with what reading costs."""


def replay(server: Victim) -> None:
    """Pipeline requests, read nothing, and look at the memory; then scrape."""
    port = int(server.settings["metricsPromExporterPort"])
    scrape(port)
    server.watch_memory()
    with contextlib.ExitStack() as held:
        deaf = [held.enter_context(silent(port)) for _ in range(4)]
        sent = sum(_pipeline(peer) for peer in deaf)
        grown = server.grown_bytes()
        assert grown < MEMORY_BYTES, f"{sent >> 20} MiB of pipelined requests took {grown >> 20} MiB"
        scrape(port)


@contextlib.contextmanager
def silent(port: int) -> Iterator[socket.socket]:
    """A connection whose peer never reads."""
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(SEND_SECONDS)
        peer.connect(("127.0.0.1", port))
        yield peer


def _pipeline(peer: socket.socket) -> int:
    block, sent = REQUEST * 4000, 0
    with contextlib.suppress(OSError):
        while sent < PIPELINED_BYTES // 4:
            sent += peer.send(block)
    return sent


def scrape(port: int) -> bytes:
    """The page of metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_SECONDS) as page:
        return bytes(page.read())


def test_pipelined_requests_that_nobody_reads_take_no_memory() -> None:
    with Victim("broker", METRICS_ON) as server:
        replay(server)


def test_connections_that_only_wait_do_not_keep_a_scrape_out() -> None:
    with Victim("broker", METRICS_ON), contextlib.ExitStack() as held:
        port = METRICS_PORT
        for _ in range(2 * MAX_CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert b"rocketmq" in scrape(port)


def test_a_request_that_is_never_complete_ends_its_connection() -> None:
    address = "127.0.0.1", METRICS_PORT
    with Victim("broker", METRICS_ON), socket.create_connection(address, WAIT_SECONDS) as peer:
        peer.settimeout(0.5)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < HEAD_S + 20:
                peer.send(b"x")
                with contextlib.suppress(TimeoutError):
                    if not peer.recv(1):
                        break
        assert HEAD_S - 1 < time.monotonic() - began < HEAD_S + 10


def test_pages_take_a_part_of_a_core_however_often_they_are_asked_for() -> None:
    with Victim("broker", METRICS_ON) as server:
        port = METRICS_PORT
        with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS) as peer, peer.makefile("rb") as answers:
            before, began = cpu_seconds(server.pid), time.monotonic()
            while time.monotonic() - began < 3:
                peer.sendall(REQUEST)
                length = 0
                while (line := answers.readline().strip()) != b"":
                    length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
                answers.read(length)
            share = (cpu_seconds(server.pid) - before) / (time.monotonic() - began)
        assert share < SHARE_MAX, f"pages took {share:.2f} of a core"
