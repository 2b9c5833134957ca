"""A small HTTP port for operators: GET alone, a page for every path.

Made for scrapes and probes: one page is made at a time and others wait for it, at most `MAX_WAITING`. It goes through
the door of the network, so that simulated clusters have it too.

Anybody who reaches the port can ask, so what a visitor costs is bounded. A visitor is not read while a request of its
own waits for a page or while it has not taken the last answer, so pipelined requests stay in its own memory. A visitor
that does not take an answer within `TAKEN_S`, or does not finish a request within `HEAD_S`, is cut. One more connection
than `MAX_CONNECTIONS` ends one of the address that has the most: the one that has asked for nothing the longest, or, if
all wait for a page, the one that has waited the longest. So neither idle nor busy strangers keep a scrape out. Making
pages takes at most `PAGES_SHARE` of the time; pages below `PROBES` have a line of their own, and `PROBES_SHARE`.

Invariants: a request line and its headers are at most `MAX_HEAD_BYTES`; at most `MAX_CONNECTIONS` are open, each ended
after `IDLE_S` without a request; a visitor holds at most one read and one page; answers leave in the order of the
requests.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, cast

from firearrow.runtime.network import Address, Listener, Network

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 64
MAX_WAITING: Final = 64
MAX_UNSENT_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of answers that all visitors together have not taken."""
IDLE_S: Final = 120.0
HEAD_S: Final = 10.0
"""Seconds within which a request that began must be complete."""
TAKEN_S: Final = 10.0
"""Seconds within which a visitor must take an answer."""
PAGES_SHARE: Final = 0.2
"""The part of the time that may go into pages: after a page that took 10 ms the next is made 40 ms later."""
PROBES: Final = "/health/"
PROBES_SHARE: Final = 0.05
"""The part of the time that may go into answers to probes, which do not wait for other pages."""
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
        self._waiting: asyncio.Queue[tuple[_Visitor, _HttpRequest]] = asyncio.Queue(MAX_WAITING)
        self._probes: asyncio.Queue[tuple[_Visitor, _HttpRequest]] = asyncio.Queue(MAX_WAITING)
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
        await asyncio.gather(self._serve(self._waiting, PAGES_SHARE), self._serve(self._probes, PROBES_SHARE))

    async def _serve(self, waiting: "asyncio.Queue[tuple[_Visitor, _HttpRequest]]", share: float) -> None:
        now = asyncio.get_running_loop().time
        while True:
            visitor, asked = await waiting.get()
            if not visitor.is_open:
                continue
            began = now()
            visitor.answer(await self._page(asked), asked)
            self._check_unsent()
            await asyncio.sleep((now() - began) * (1 / share - 1))

    def _check_unsent(self) -> None:
        """Cut the visitors that asked first of those who do not take their answers, if these are too many bytes."""
        unsent = {visitor: visitor.unsent for visitor in self.visitors}
        held = sum(unsent.values())
        for visitor, size in unsent.items():
            if held <= MAX_UNSENT_BYTES:
                break
            if size:
                held -= size
                visitor.cut()

    def enter(self, visitor: "_Visitor") -> None:
        """Count a new connection; if there are too many, end one of the address that has the most."""
        self.visitors[visitor] = None
        if len(self.visitors) > MAX_CONNECTIONS:
            counts = Counter(each.host for each in self.visitors)
            most = max(counts.values())
            crowd = [each for each in self.visitors if counts[each.host] == most]
            ended = next((each for each in crowd if not each.is_waiting), crowd[0])
            del self.visitors[ended]
            ended.cut()

    def heard(self, visitor: "_Visitor") -> None:
        """Note that a visitor has sent a request."""
        if self.visitors.pop(visitor, self) is None:
            self.visitors[visitor] = None

    def ask(self, visitor: "_Visitor", asked: "_HttpRequest") -> None:
        """Take a request."""
        line = self._probes if asked.path.startswith(PROBES) else self._waiting
        if line.full():  # visitors that were cut leave their places to others
            for waiting in [line.get_nowait() for _ in range(line.qsize())]:
                if waiting[0].is_open:
                    line.put_nowait(waiting)
        try:
            line.put_nowait((visitor, asked))
        except asyncio.QueueFull:
            visitor.refuse(503, "too many requests wait for a page")

    async def _page(self, asked: "_HttpRequest") -> Page:
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


class _HttpRequest(NamedTuple):
    method: str
    path: str
    keeps: bool
    """Whether the connection stays open after the answer."""


def parse_head(head: bytes) -> _HttpRequest | None:
    """Read the head of a request; None if it is no request that is answered here."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    fields = {name.strip().lower(): value.strip().lower() for name, _, value in (one.partition(":") for one in lines)}
    if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
        return None  # a body would be taken for the next request
    stays = fields.get("connection", "keep-alive" if words[2] == "HTTP/1.1" else "close")
    return _HttpRequest(words[0], words[1].partition("?")[0], stays != "close")


class _Visitor(asyncio.Protocol):
    """One connection."""

    def __init__(self, port: HttpPort) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._is_unread = False
        """Whether the visitor has not taken the last answer."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        """Whether a part of a request has come."""
        self.host = ""
        """The address of the visitor."""
        self.is_waiting = False
        """Whether a request of this visitor waits for its page."""

    @property
    def is_open(self) -> bool:
        """Whether an answer can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def unsent(self) -> int:
        """Bytes of answers that the visitor has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.host = str(transport.get_extra_info("peername")[0])
        self._transport.set_write_buffer_limits(0, 0)  # `resume_writing` says that everything was taken
        self._wait(IDLE_S)
        self._port.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        self._port.visitors.pop(self, None)
        self._received.clear()
        self._wait(None)

    def pause_writing(self) -> None:
        """Note that the visitor has not taken all of an answer yet."""
        self._is_unread = True

    def resume_writing(self) -> None:
        """Note that the visitor has taken the answer: look at its next request."""
        self._is_unread = False
        if self.is_open and not self.is_waiting:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self.is_waiting and not self._is_unread:
            self._next()

    def _go_on(self) -> None:
        self._wait(IDLE_S)
        self._next()

    def _next(self) -> None:
        """Take the next whole request, and read no further until it is answered; without one, read on."""
        assert self._transport is not None, "there is data, so there is a connection"
        end = self._received.find(_END, 0, MAX_HEAD_BYTES + len(_END))
        if end < 0 and len(self._received) > MAX_HEAD_BYTES:
            self.refuse(431, f"a request may have {MAX_HEAD_BYTES} bytes")
            return
        if end < 0:
            if self._received and not self._has_begun:
                self._has_begun = True
                self._wait(HEAD_S)
            self._transport.resume_reading()
            return
        asked = parse_head(bytes(self._received[:end]))
        del self._received[: end + len(_END)]
        if asked is None:
            self.refuse(400, "this is not a GET request of HTTP/1")
            return
        self._transport.pause_reading()
        self.is_waiting, self._has_begun = True, False
        self._wait(None)
        self._port.heard(self)
        self._port.ask(self, asked)

    def answer(self, page: Page, asked: _HttpRequest) -> None:
        """Send a page; look at the next request when the visitor has taken it."""
        self.is_waiting = False
        self._send(page, keeps=asked.keeps, body=asked.method != "HEAD")
        if self.is_open and not self._is_unread:
            self._go_on()

    def refuse(self, status: int, why: str) -> None:
        """Send the reason and end the connection."""
        self._send(Page(f"{why}\n".encode(), status), keeps=False)

    def _send(self, page: Page, *, keeps: bool, body: bool = True) -> None:
        if not self.is_open or self._transport is None:
            return
        stays = "keep-alive" if keeps else "close"
        head = (
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.kind}\r\n"
            f"Content-Length: {len(page.body)}\r\nConnection: {stays}\r\n\r\n"
        )
        self._wait(TAKEN_S)
        self._transport.write(head.encode() + (page.body if body else b""))
        if not keeps:
            self._transport.close()

    def _wait(self, seconds: float | None) -> None:
        """Cut the connection after ``seconds`` unless this is called again; None: not at all."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.cut)

    def cut(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """End the connection after what was sent."""
        if self._transport is not None:
            self._transport.close()
