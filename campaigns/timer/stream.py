"""Sends very many timed messages over a few connections: frames made from one template, many without an answer yet.

A `TimerTalk` sends some thousands of messages a second and is the limit then, not the broker.
"""

import asyncio
import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from campaigns.timer.talk import GROUP, Timer
from firearrow.model import keys
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.protocol.serialize import encode_request
from firearrow.record.properties import format_properties
from firearrow.runtime.network import Address

CONNECTIONS: Final = 2
IN_FLIGHT: Final = 256
"""Messages of one connection without an answer."""
AGAIN_S: Final = 0.05
"""Seconds after which a message is sent again that a broker under load has refused."""
_OPAQUE_AT: Final = 13
_ANSWER: Final = struct.Struct(">I4xh3xi")
_KEY_DIGITS: Final = 27
_BODY_DIGITS: Final = 9


class _Heading(msgspec.Struct):
    code: int
    opaque: int


_heading = msgspec.json.Decoder(_Heading).decode


class Template:
    """The frame of a timed message, but for its number."""

    def __init__(self, topic: str, due_ms: int) -> None:
        timer = Timer(0, due_ms)
        request = SendMessageV2(
            producer_group=GROUP,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=due_ms,
            flag=0,
            properties=format_properties({keys.UNIQ_KEY: timer.unique_key, keys.TIMER_DELIVER_MS: str(due_ms)}),
            reconsume_times=0,
            unit_mode=False,
        )
        header = encode_request(Encoding.COMPACT, request, 0, body_size=_BODY_DIGITS)
        at = header.index(timer.unique_key.encode()) + len(timer.unique_key)
        self._head, self._middle = header[:_OPAQUE_AT], header[_OPAQUE_AT + 4 : at - _KEY_DIGITS]
        self._rest = header[at:]

    def frame(self, number: int) -> bytes:
        """The frame of one message; its opaque is its number, its body the number too."""
        key, body = b"%027d" % number, b"%09d" % number
        return b"".join((self._head, number.to_bytes(4), self._middle, key, self._rest, body))


class _Sender(asyncio.Protocol):
    """One connection. Takes the next number whenever an answer comes."""

    def __init__(self, template: Template, numbers: Iterator[int]) -> None:
        self._template = template
        self._numbers = numbers
        self._data = b""
        self._owed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send(IN_FLIGHT)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the broker closed the connection"))

    def _send(self, most: int) -> None:
        taken = [number for _, number in zip(range(most), self._numbers, strict=False)]
        self._owed += len(taken)
        self._write(taken)
        if not self._owed and not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def _write(self, numbers: list[int]) -> None:
        if numbers:
            self._transport.write(b"".join(map(self._template.frame, numbers)))

    def data_received(self, data: bytes) -> None:
        answered, refused = 0, []
        for code, number in self._answers(data):
            if code == 0:
                answered += 1
            elif code == ResponseCode.SYSTEM_BUSY:
                refused.append(number)  # the broker sheds load: it has not stored the message
            elif not self.done.done():
                self.done.set_exception(AssertionError(f"message {number} was refused with code {code}"))
        self._owed -= answered
        if refused:
            asyncio.get_running_loop().call_later(AGAIN_S, self._write, refused)
        if answered:
            self._send(answered)

    def _answers(self, data: bytes) -> Iterator[tuple[int, int]]:
        data = self._data + data
        at = 0
        while len(data) - at >= _ANSWER.size and (end := at + 4 + _ANSWER.unpack_from(data, at)[0]) <= len(data):
            _, code, opaque = _ANSWER.unpack_from(data, at)
            if data[at + 4] == Encoding.JSON:
                heading = _heading(data[at + 8 : at + 8 + int.from_bytes(data[at + 5 : at + 8])])
                code, opaque = heading.code, heading.opaque
            yield code, opaque
            at = end
        self._data = data[at:]


async def stream(address: str, topic: str, due_ms: int, count: int) -> None:
    """Send ``count`` messages for one time to queue 0 of a topic; return when every one is acknowledged."""
    to, numbers, template = Address.parse(address), iter(range(count)), Template(topic, due_ms)
    senders = []
    for _ in range(CONNECTIONS):
        _, sender = await asyncio.get_running_loop().create_connection(
            lambda: _Sender(template, numbers), to.host, to.port
        )
        senders.append(sender)
    await asyncio.gather(*(sender.done for sender in senders))
