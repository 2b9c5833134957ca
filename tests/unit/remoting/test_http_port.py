"""Busy visitors of the port of metrics keep neither probes nor scrapes of other addresses out."""

import asyncio

import pytest

from firearrow.remoting import http_port
from firearrow.remoting.http_port import MAX_CONNECTIONS, HttpPort, Page
from firearrow.runtime.network import Address
from tests.unit.remoting.memory import MemoryNetwork, MemoryTransport, virtually

PAGE_S = 0.05
"""The size of a page of metrics."""


class Visitor(MemoryTransport):
    """A visitor of another address than that of `MemoryNetwork.arrive`."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.2", 5000) if name == "peername" else super().get_extra_info(name, default)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


async def visit() -> None:
    """One address keeps all connections busy; another asks for its health, then for a page."""

    async def metrics() -> Page:
        await asyncio.sleep(PAGE_S)
        return Page(b"metrics")

    async def live() -> Page:
        return Page(b"alive")

    network = MemoryNetwork()
    port = HttpPort(network, {"/metrics": metrics, "/health/live": live})
    await port.start(Address("10.0.0.1", 80))
    running = asyncio.create_task(port.run())
    try:
        busy = [network.arrive() for _ in range(MAX_CONNECTIONS)]
        for one in busy:
            one.hear(get("/metrics"))
        assert network.factory is not None
        probe, scrape = (Visitor(number).arrive(network.factory()) for number in (1, 2))
        assert not probe.ended, "the probe was cut"
        assert not scrape.ended, "the scrape was cut"
        assert len(port.visitors) == MAX_CONNECTIONS
        assert [bool(one.ended) for one in busy[:3]] == [True, True, False], "those that had waited the longest end"
        probe.hear(get("/health/live"))
        scrape.hear(get("/metrics"))
        await asyncio.sleep(PAGE_S / 2)
        assert b"alive" in probe.said(), "the probe waits for pages"
        await asyncio.sleep(2 * MAX_CONNECTIONS * PAGE_S / http_port.PAGES_SHARE)
        assert b"metrics" in scrape.said()
    finally:
        running.cancel()
        await port.stop()


def test_busy_visitors_keep_neither_probes_nor_scrapes_out() -> None:
    virtually(visit())


def test_probes_that_wait_for_pages_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "PROBES", "/no such page")
    with pytest.raises(AssertionError, match="the probe waits"):
        virtually(visit())


def test_probes_take_a_small_share_of_the_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        asked = 0

        async def live() -> Page:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0.001)
            return Page(b"alive")

        network = MemoryNetwork()
        port = HttpPort(network, {"/health/live": live})
        await port.start(Address("10.0.0.1", 80))
        running = asyncio.create_task(port.run())
        visitors = [network.arrive() for _ in range(8)]
        until = loop.time() + 10
        while loop.time() < until:
            for visitor in visitors:
                if visitor.reads:
                    visitor.hear(get("/health/live"))
            await asyncio.sleep(0.001)
        assert asked * 0.001 <= 10 * http_port.PROBES_SHARE + 0.01
        running.cancel()
        await port.stop()

    virtually(scenario())
