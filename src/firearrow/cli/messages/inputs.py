"""The input of ``firearrow produce``: lines, JSON lines or whole files, from files or standard input.

A line of JSON is an object with ``body``, or ``bodyBase64`` for bytes that are not text, and optionally ``tag``,
``keys`` (words or a list), ``shardingKey``, ``properties``, and one of ``delay`` (``"90s"``), ``deliverAt``
(milliseconds since 1970, or a time as text) and ``delayLevel``, so the output of ``firearrow consume --json`` can be
produced again. Other members are ignored.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from firearrow.cli.messages.standard_input import lines_of, read_descriptor, whole
from firearrow.cli.times import time_to_come_ms, wait_ms
from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import Message, keys

STANDARD_INPUT = "-"


class InputFormat(StrEnum):
    """The format of the input that becomes messages."""

    LINES = "lines"
    JSON = "json"
    FILES = "files"


class JsonMessage(Struct, rename="camel"):
    """One line of JSON."""

    body: str | None = None
    body_base64: bytes | None = None
    tag: str = ""
    keys: list[str] | str = ""
    sharding_key: str = ""
    delay_level: Annotated[int, Meta(ge=0)] = 0
    delay: str = ""
    deliver_at: int | str | None = None
    properties: dict[str, str] = {}

    @property
    def delayed(self) -> "Delay":
        """The delay of the line."""
        at_ms = time_to_come_ms(self.deliver_at) if isinstance(self.deliver_at, str) else self.deliver_at
        return Delay(self.delay_level, wait_ms(self.delay) if self.delay else 0, at_ms)


class Delay(Struct, frozen=True):
    """The delay of a message: a delay level, some time, or until a time; empty: none."""

    level: int = 0
    wait_ms: int = 0
    at_ms: int | None = None


class MessageDefaults(Struct, frozen=True):
    """The parts of a message that come from options; a line of JSON overrides them."""

    topic: str
    tag: str = ""
    keys: tuple[str, ...] = ()
    sharding_key: str = ""
    delay: Delay = Delay()
    properties: Mapping[str, str] = {}

    def message(self, body: bytes) -> Message:
        """Return a message with these parts."""
        return Message.of(
            self.topic,
            body,
            tag=self.tag,
            keys=self.keys,
            sharding_key=self.sharding_key,
            delay_level=self.delay.level,
            delay=timedelta(milliseconds=self.delay.wait_ms) if self.delay.wait_ms else None,
            deliver_at=self.delay.at_ms,
            properties=self.properties,
        )


_OF_THE_SYSTEM = keys.RESERVED | {
    keys.SHARDING_KEY,
    keys.INNER_NUM,
    keys.INNER_BASE,
    keys.INNER_MULTI_DISPATCH,
    keys.TIMER_ROLL_LABEL,
    keys.TRANSACTION_ID,
    keys.TRANSACTION_CHECK_TIMES,
    keys.TRANS_OFFSET,
}
"""Properties that a new message must not copy: they have options of their own, or record an earlier delivery."""


class SkipCount:
    """Counts input that is not a message."""

    def __init__(self) -> None:
        self.empty_lines = 0


async def messages(
    parts: MessageDefaults, given: list[Path], texts: list[str], form: InputFormat, passed: SkipCount
) -> AsyncIterator[Message]:
    """Yield the messages of texts, else of files, else of standard input; empty lines are skipped and counted."""
    for text in texts:
        yield (
            _from_json(parts, text.encode(), "--message") if form is InputFormat.JSON else parts.message(text.encode())
        )
    if texts:
        return
    for path in given or [Path(STANDARD_INPUT)]:
        name = "standard input" if str(path) == STANDARD_INPUT else str(path)
        async with aclosing(_lines(path, form)) as lines:
            number = 0
            async for line in lines:
                number += 1
                body = line if form is InputFormat.FILES else line.rstrip(b"\r\n")
                if not body and form is not InputFormat.FILES:
                    passed.empty_lines += 1
                    continue
                if form is InputFormat.JSON:
                    yield _from_json(parts, body, f"line {number} of {name}")
                else:
                    yield parts.message(body)


async def _lines(path: Path, form: InputFormat) -> AsyncGenerator[bytes]:
    """Yield the lines of a file, or the whole file, according to the format."""
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise IllegalMessage("standard input is closed; give files, or --message TEXT")
        chunks = read_descriptor(sys.stdin.fileno())
        async with aclosing(chunks):
            async for line in whole(chunks) if form is InputFormat.FILES else lines_of(chunks):
                yield line
        return
    try:
        with path.open("rb") as file:
            if form is InputFormat.FILES:
                yield file.read()
                return
            for line in file:
                yield line
    except OSError as error:
        raise IllegalMessage(f"{path} cannot be read: {error.strerror or error}; check the path") from error


def _from_json(parts: MessageDefaults, line: bytes, where: str) -> Message:
    try:
        said = msgspec.json.decode(line, type=JsonMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise IllegalMessage(
            f'{where} is not a message: {error}; write {{"body": "..."}} or use --format lines'
        ) from error
    try:
        delay = said.delayed
    except SettingsError as error:
        raise IllegalMessage(f"{where} is not a message: {error}") from error
    if (said.body is None) == (said.body_base64 is None):
        raise IllegalMessage(f"{where} is not a message: give either body or bodyBase64")
    body = said.body.encode() if said.body is not None else said.body_base64
    assert body is not None
    own = {name: value for name, value in said.properties.items() if name not in _OF_THE_SYSTEM}
    words = tuple(said.keys.split() if isinstance(said.keys, str) else said.keys)
    made = MessageDefaults(
        parts.topic,
        said.tag or parts.tag,
        words or parts.keys,
        said.sharding_key or parts.sharding_key,
        delay if delay != Delay() else parts.delay,
        {**parts.properties, **own},
    )
    try:
        return made.message(body)
    except IllegalMessage as error:
        raise IllegalMessage(f"{where} is not a message: {error}") from error
