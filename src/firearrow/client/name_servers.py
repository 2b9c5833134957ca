"""The name servers of a client: a list, of which one is in use, and the next if that one fails.

A client starts with a random name server, to spread load, and stays with it while it answers. If it does not answer,
the client asks the others in turn and stays with the first that answers. A refusal counts as an answer, because all
name servers know the same. Java: ``NettyRemotingClient.getAndCreateNameserverChannel``.

The list is given, or fetched from an HTTP server (`lookup`); requests wait until the first list has arrived.
"""

import asyncio
import logging
import random
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from firearrow.client.lookup import Url, is_url, parse_url
from firearrow.errors import (
    ConnectionFailed,
    ConnectionLost,
    NoRoute,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
    SettingsError,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.remoting.caller import Caller
from firearrow.remoting.reply import CALL_TIMEOUT_MS, SUCCESS_ONLY, Reply
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

SLOW_S: Final = 1.0
"""Seconds that a name server may be silent before a warning in the log."""

UNANSWERED = (ConnectionFailed, ConnectionLost, RequestTimedOut, Overloaded)
"""Errors after which another server may still answer."""


def parse_name_servers(given: str | Iterable[str]) -> tuple[Address, ...]:
    """Read ``host:port;host:port``, or several such texts."""
    texts = [given] if isinstance(given, str) else list(given)
    parts = [part.strip() for text in texts for part in text.replace(",", ";").split(";")]
    addresses = tuple(dict.fromkeys(Address.parse(part) for part in parts if part))
    if not addresses:
        raise SettingsError("no name server is given; write host:port, and several separated by ;")
    return addresses


class NameServerSource(Struct, frozen=True):
    """The addresses of the name servers, or the URL of their list."""

    addresses: tuple[Address, ...] = ()
    url: Url | None = None


def name_server_source(given: str | Iterable[str]) -> NameServerSource:
    """Read ``host:port;host:port``, or the URL ``http://host:port/path`` of such a list."""
    texts = [given] if isinstance(given, str) else list(given)
    if len(texts) == 1 and is_url(texts[0]):
        return NameServerSource(url=parse_url(texts[0]))
    return NameServerSource(parse_name_servers(texts))


class NameServers:
    """Sends requests to the name server in use, or the next that answers. ``replace`` fills an empty list."""

    def __init__(self, caller: Caller, addresses: tuple[Address, ...], chance: random.Random) -> None:
        self._caller = caller
        self._addresses = addresses
        self._chosen = chance.randrange(len(addresses)) if addresses else 0
        self._chance = chance
        self._are_known = asyncio.Event()
        self._slow: set[Address] = set()
        self.fault = ""
        """The reason why the list could not be fetched; empty if it could."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All addresses."""
        return self._addresses

    def replace(self, addresses: tuple[Address, ...]) -> None:
        """Replace the list; the name server in use stays in use if it is in the new list."""
        used = self._addresses[self._chosen] if self._addresses else None
        self._addresses = addresses
        self._chosen = addresses.index(used) if used in addresses else self._chance.randrange(len(addresses))
        self._are_known.set()

    async def _known(self, timeout_ms: float) -> tuple[Address, ...]:
        if not self._addresses:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._are_known.wait()
            except TimeoutError:
                raise NoRoute(f"no name server is known yet: {self.fault or 'the list has not been fetched'}") from None
        return self._addresses

    async def ask(
        self,
        request: Request[A],
        *,
        timeout_ms: float = CALL_TIMEOUT_MS,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Ask one name server after the other, ``timeout_ms`` each; raise the last error if none answers."""
        addresses, first = self._addresses or await self._known(timeout_ms), self._chosen
        for step in range(len(addresses)):
            index = (first + step) % len(addresses)
            try:
                reply = await self._call(addresses[index], request, timeout_ms, accept)
            except RequestRefused as refusal:
                if refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    refusal.args = (f"{refusal}; check that {addresses[index]} is a name server: brokers refuse this",)
                raise
            except UNANSWERED as error:
                if step == len(addresses) - 1:
                    error.may_have_happened = False  # the request changes nothing, so asking another is safe
                    raise
                continue
            if self._addresses is addresses:
                self._chosen = index
            return reply
        raise AssertionError("there is always a name server")

    async def _call(self, address: Address, request: Request[A], timeout_ms: float, accept: frozenset[int]) -> Reply[A]:
        """Ask one name server; log a warning if it is slow."""
        timer = asyncio.get_running_loop().call_later(SLOW_S, self._say_slow, address)
        try:
            reply = await self._caller.call(address, request, timeout_ms=timeout_ms, accept=accept)
        finally:
            timer.cancel()
        self._slow.discard(address)
        return reply

    def _say_slow(self, address: Address) -> None:
        if address not in self._slow:
            self._slow.add(address)
            what = "name server %s has not answered for %g s; check that it is one, and whether it wants %s"
            log.warning(what, address, SLOW_S, "TLS (tls, --tls)", extra={"name_server": str(address)})
