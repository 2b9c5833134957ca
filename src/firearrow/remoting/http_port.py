"""A small HTTP port for operators: GET alone, a page for every path.

Made for scrapes and probes: one page is made at a time and others wait for it, at most `MAX_WAITING`. It goes through
the door of the network, so that simulated clusters have it too.

Invariants: a request line and its headers are at most `MAX_HEAD_BYTES`; at most `MAX_CONNECTIONS` are open, each ended
after `IDLE_S` without a request; answers leave in the order of the requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, cast

from firearrow.runtime.network import Address, Listener, Network

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 64
MAX_WAITING: Final = 64
IDLE_S: Final = 120.0
PLAIN: Final = "text/plain; charset=utf-8"
_END: Final = b"\r\n\r\n"
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
                   431: "Request Header Fields Too Large", 500: "Internal Server Error",
                   503: "Service Unavailable"}  # fmt: skip

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: int = 200
    kind: str = PLAIN


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


class HttpPort:
    """Answers GET requests at one address; run `run` as a task."""

    def __init__(self, network: Network, pages: Pages) -> None:
        self._network = network
        self._pages = pages
        self._waiting: asyncio.Queue[tuple[_Visitor, _Asked]] = asyncio.Queue(MAX_WAITING)
        self._listener: Listener | None = None
        self.visitors: Final[dict[_Visitor, None]] = {}

    @property
    def address(self) -> Address:
        """The address that the port listens at."""
        assert self._listener is not None, "the port has not been opened"
        return self._listener.address

    async def start(self, address: Address) -> None:
        """Listen; raise ``ListenFailed`` when the address is taken."""
        self._listener = await self._network.listen(lambda: _Visitor(self), address)

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        for visitor in tuple(self.visitors):
            visitor.end()

    async def run(self) -> None:
        """Make pages until cancelled."""
        while True:
            visitor, asked = await self._waiting.get()
            visitor.answer(await self._page(asked), asked)

    def ask(self, visitor: "_Visitor", asked: "_Asked") -> None:
        """Take a request."""
        try:
            self._waiting.put_nowait((visitor, asked))
        except asyncio.QueueFull:
            visitor.refuse(503, "too many requests wait for a page")

    async def _page(self, asked: "_Asked") -> Page:
        if asked.method not in ("GET", "HEAD"):
            return Page(b"only GET is answered here\n", 405)
        make = self._pages.get(asked.path)
        if make is None:
            return Page(f"there is no such page; there are: {' '.join(sorted(self._pages))}\n".encode(), 404)
        try:
            return await make()
        except Exception as error:
            log.exception("the page %s could not be made", asked.path, extra={"page": asked.path})
            return Page(f"the page could not be made: {error!r}; see the log\n".encode(), 500)


class _Asked(NamedTuple):
    method: str
    path: str
    keeps: bool
    """Whether the connection stays open after the answer."""


def _parse(head: bytes) -> _Asked | None:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    fields = {name.strip().lower(): value.strip().lower() for name, _, value in (one.partition(":") for one in lines)}
    if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
        return None  # a body would be taken for the next request
    stays = fields.get("connection", "keep-alive" if words[2] == "HTTP/1.1" else "close")
    return _Asked(words[0], words[1].partition("?")[0], stays != "close")


class _Visitor(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: HttpPort) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._is_waiting = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._port.visitors) >= MAX_CONNECTIONS:
            self._transport.abort()
            return
        self._port.visitors[self] = None
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        self._port.visitors.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_waiting:
            self._next()

    def _next(self) -> None:
        end = self._received.find(_END)
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._received) > MAX_HEAD_BYTES):
            self.refuse(431, f"a request may have {MAX_HEAD_BYTES} bytes")
            return
        if end < 0:
            return
        asked = _parse(bytes(self._received[:end]))
        del self._received[: end + len(_END)]
        if asked is None:
            self.refuse(400, "this is not a GET request of HTTP/1")
            return
        self._is_waiting = True
        if self._timer is not None:
            self._timer.cancel()
        self._port.ask(self, asked)

    def answer(self, page: Page, asked: _Asked) -> None:
        """Send a page, then look at the next request."""
        self._is_waiting = False
        self._send(page, keeps=asked.keeps, body=asked.method != "HEAD")
        if self._transport is not None and not self._transport.is_closing():
            self._wait()
            self._next()

    def refuse(self, status: int, why: str) -> None:
        """Send the reason and end the connection."""
        self._send(Page(f"{why}\n".encode(), status), keeps=False)

    def _send(self, page: Page, *, keeps: bool, body: bool = True) -> None:
        if self._transport is None:
            return
        stays = "keep-alive" if keeps else "close"
        head = (
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.kind}\r\n"
            f"Content-Length: {len(page.body)}\r\nConnection: {stays}\r\n\r\n"
        )
        self._transport.write(head.encode() + (page.body if body else b""))
        if not keeps:
            self._transport.close()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.end)

    def end(self) -> None:
        """End the connection after what was sent."""
        if self._transport is not None:
            self._transport.close()
