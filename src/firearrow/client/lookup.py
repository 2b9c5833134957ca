"""The list of name servers from an HTTP server: a text ``host:port;host:port``, fetched regularly.

A changed list takes effect without a restart. If the server does not answer, or its answer is not a list, the last good
list stays in use. There is no default host; Apache's clients have one.

One ``GET`` over the network door, HTTP/1.1, a new connection for each (``Connection: close``); bodies with a length, in
chunks, or until the end of the connection. Java: ``DefaultTopAddressing``, ``MQClientAPIImpl.fetchNameServerAddr``.
"""

import asyncio
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from firearrow.errors import BadBody, ConnectionFailed, FireArrowError, RequestTimedOut, SettingsError
from firearrow.runtime.network import Address, Network
from firearrow.runtime.tls import connect_tls
from firearrow.runtime.tls_settings import ClientTls, client_context

FETCH_TIMEOUT_S: Final = 3.0
MAX_ANSWER_BYTES: Final = 64 * 1024
SCHEMES: Final = {"http": 80, "https": 443}


class Url(NamedTuple):
    """The HTTP address of a list of name servers."""

    scheme: str
    address: Address
    target: str


def is_url(text: str) -> bool:
    """Whether a text is a URL rather than addresses of name servers."""
    return text.strip().lower().startswith(("http://", "https://"))


def parse_url(text: str) -> Url:
    """Read ``http://host:port/path``."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError as wrong:
        raise SettingsError(f"{text!r} is not the URL of a list of name servers: {wrong}") from wrong
    if parts.scheme not in SCHEMES or not host:
        raise SettingsError(f"{text!r} is not the URL of a list of name servers; write http://host:port/path")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Url(parts.scheme, Address(host, port or SCHEMES[parts.scheme]), target)


class HttpAnswer(asyncio.Protocol):
    """Collects the answer on one connection."""

    def __init__(self) -> None:
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._heard = bytearray()

    def data_received(self, data: bytes) -> None:
        """Add received bytes."""
        self._heard += data
        if len(self._heard) > MAX_ANSWER_BYTES:
            self._end(BadBody(f"the answer has more than {MAX_ANSWER_BYTES} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the answer is complete, or the error that ended it."""
        self._end(None if exc is None else ConnectionFailed(f"the connection was lost: {exc}"))

    def _end(self, error: FireArrowError | None) -> None:
        if self.whole.done():
            return
        if error is not None:
            self.whole.set_exception(error)
        else:
            self.whole.set_result(bytes(self._heard))


async def fetch(network: Network, url: Url) -> str:
    """Fetch the list once; raise ``ConnectionFailed``, ``RequestTimedOut`` or ``BadBody`` if that fails."""
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            return read_answer(await _exchange(network, url), str(url.address))
    except TimeoutError:
        raise RequestTimedOut(f"{url.address} named no name servers within {FETCH_TIMEOUT_S:g} s") from None


async def _exchange(network: Network, url: Url) -> bytes:
    answer = HttpAnswer()
    if url.scheme == "https":
        context = client_context(ClientTls(enabled=True, verify_server=True))
        transport = await connect_tls(network, lambda: answer, url.address, context)
    else:
        transport = await network.connect(lambda: answer, url.address)
    try:
        host = str(url.address)
        transport.write(f"GET {url.target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return await answer.whole
    finally:
        transport.abort()


def read_answer(raw: bytes, server: str = "the server for name server addresses") -> str:
    """Return the text in an HTTP answer. Pure."""
    head, divided, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not divided or len(words) < 2 or not words[0].startswith("HTTP/1."):
        raise BadBody(f"{server} answered with something that is not HTTP/1; check the address of the list")
    if words[1] != "200":
        raise ConnectionFailed(
            f"{server} answered {' '.join(words[1:])!r} when asked for name servers; "
            "check the address, or give host:port of the name servers themselves"
        )
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = _joined(body)
    elif fields.get("content-length", "").isdigit():
        length = int(fields["content-length"])
        if len(body) < length:
            raise BadBody(f"the list of name servers was cut off after {len(body)} of {length} bytes")
        body = body[:length]
    return body.decode("utf-8", "replace").strip()


def _joined(chunked: bytes) -> bytes:
    parts: list[bytes] = []
    rest = chunked
    while True:
        size, divided, rest = rest.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            raise BadBody("the list of name servers comes in chunks that do not parse") from None
        if not divided or len(rest) < length:
            raise BadBody("the list of name servers was cut off in the middle of a chunk")
        if length == 0:
            return b"".join(parts)
        parts.append(rest[:length])
        rest = rest[length + 2 :]
