"""What ``firearrow produce`` reads: lines, JSON lines or whole files, from files or standard input.

A line of JSON is an object with ``body``, or ``bodyBase64`` for bytes that are no text, and optionally ``tag``,
``keys`` (words or a list), ``shardingKey``, ``delayLevel`` and ``properties``: what ``firearrow consume --json``
prints can be produced again. Other members are passed over.
"""

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta, Struct

from firearrow.errors import IllegalMessage
from firearrow.model import Message, keys

STANDARD_INPUT = "-"


class InputFormat(StrEnum):
    """How input becomes messages."""

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
    properties: dict[str, str] = {}


class Parts(Struct, frozen=True):
    """What the options give every message; a line of JSON may say otherwise."""

    topic: str
    tag: str = ""
    keys: tuple[str, ...] = ()
    sharding_key: str = ""
    delay_level: int = 0
    properties: Mapping[str, str] = {}

    def message(self, body: bytes) -> Message:
        """A message with these parts."""
        return Message.of(
            self.topic,
            body,
            tag=self.tag,
            keys=self.keys,
            sharding_key=self.sharding_key,
            delay_level=self.delay_level,
            properties=self.properties,
        )


_OF_THE_SYSTEM = frozenset({keys.UNIQ_KEY, keys.TAGS, keys.KEYS, keys.DELAY, keys.SHARDING_KEY})
"""Properties that are given in another way, or that a new message must not take over."""


def messages(parts: Parts, given: list[Path], texts: list[str], form: InputFormat) -> Iterator[Message]:
    """The messages of texts, else of files, else of standard input."""
    if texts:
        for text in texts:
            yield (
                _from_json(parts, text.encode(), "--message")
                if form is InputFormat.JSON
                else parts.message(text.encode())
            )
        return
    for path in given or [Path(STANDARD_INPUT)]:
        if str(path) == STANDARD_INPUT:
            yield from _read(parts, sys.stdin.buffer, "standard input", form)
            continue
        try:
            with path.open("rb") as file:
                yield from _read(parts, file, str(path), form)
        except OSError as error:
            raise IllegalMessage(f"{path} cannot be read: {error.strerror or error}") from error


def _read(parts: Parts, file: BinaryIO, name: str, form: InputFormat) -> Iterator[Message]:
    if form is InputFormat.FILES:
        yield parts.message(file.read())
        return
    for number, line in enumerate(file, 1):
        body = line.rstrip(b"\r\n")
        if not body:
            continue
        yield parts.message(body) if form is InputFormat.LINES else _from_json(parts, body, f"line {number} of {name}")


def _from_json(parts: Parts, line: bytes, where: str) -> Message:
    try:
        said = msgspec.json.decode(line, type=JsonMessage)
    except msgspec.DecodeError as error:
        raise IllegalMessage(
            f'{where} is no message: {error}; write {{"body": "..."}} or use --format lines'
        ) from error
    if (said.body is None) == (said.body_base64 is None):
        raise IllegalMessage(f"{where} is no message: it needs either body or bodyBase64")
    body = said.body.encode() if said.body is not None else said.body_base64
    assert body is not None
    own = {name: value for name, value in said.properties.items() if name not in _OF_THE_SYSTEM}
    words = tuple(said.keys.split() if isinstance(said.keys, str) else said.keys)
    return Parts(
        parts.topic,
        said.tag or parts.tag,
        words or parts.keys,
        said.sharding_key or parts.sharding_key,
        said.delay_level or parts.delay_level,
        {**parts.properties, **own},
    ).message(body)
