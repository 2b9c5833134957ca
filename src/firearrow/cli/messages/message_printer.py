"""The printer of ``firearrow consume``: a table, bodies only, JSON lines, or chosen fields as in kcat.

`FIELDS` are the fields of a format; ``\\n``, ``\\t``, ``\\r`` and ``\\0`` are characters.
Nothing is added at the end of a message.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from firearrow.cli.output import standard_output
from firearrow.cli.tables import body_fields, body_text, time_text
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue, StoredMessage, keys
from firearrow.model.delays import due_ms

TABLE: Final = "table"
RAW: Final = "raw"
JSON: Final = "json"
HEADER: Final = f"{'stored':<24}  {'broker:queue@offset':<20}  {'tag, keys':<16}  body\n"

Render = Callable[[StoredMessage, MessageQueue], bytes]

FIELDS: Final[dict[str, tuple[str, Render]]] = {
    "t": ("topic", lambda message, _: message.topic.encode()),
    "b": ("broker", lambda _, queue: queue.broker_name.encode()),
    "p": ("queue", lambda _, queue: str(queue.queue_id).encode()),
    "o": ("offset in the queue", lambda message, _: str(message.queue_offset).encode()),
    "k": ("keys", lambda message, _: " ".join(message.keys).encode()),
    "g": ("tag", lambda message, _: message.tag.encode()),
    "T": ("store time in ms", lambda message, _: str(message.store_timestamp).encode()),
    "D": (
        "when a timed message was due, in ms (after a delay: when its slot of timerPrecisionMs began)",
        lambda message, _: str(due_ms(message.properties) or "").encode(),
    ),
    "i": ("message id", lambda message, _: (message.unique_key or "").encode()),
    "h": (
        "properties",
        lambda message, _: ",".join(f"{name}={value}" for name, value in message.properties.items()).encode(),
    ),
    "s": ("body", lambda message, _: message.body),
    "S": ("length of the body", lambda message, _: str(len(message.body)).encode()),
    "%": ("a percent sign", lambda _message, _queue: b"%"),
}
FIELDS_HELP: Final = ", ".join(f"%{letter} {meaning}" for letter, (meaning, _) in FIELDS.items())
CHARACTERS: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class Printer:
    """Prints messages as they come."""

    def __init__(self, form: str) -> None:
        self._render = renderer(form)
        self._header = HEADER if form == TABLE else ""
        self._shows_faults = form in (TABLE, JSON)

    def print(self, message: StoredMessage, queue: MessageQueue) -> None:
        """Print a message and flush it; raise ``OutputEnded`` if that fails.

        With ``--format raw`` a message whose body cannot be read is left out.
        """
        if message.body_fault and not self._shows_faults:
            sys.stderr.write(f"{_place(message, queue)} {message.unique_key} is left out: {message.body_fault}\n")
            return
        out = standard_output().buffer
        if self._header:
            out.write(self._header.encode())
            self._header = ""
        out.write(self._render(message, queue))
        out.flush()


def renderer(form: str) -> Render:
    """Return the function that renders a message in a format; raise ``SettingsError`` for an unknown format."""
    known: dict[str, Render] = {
        TABLE: _line,
        RAW: lambda message, _: message.body + b"\n",
        JSON: _json_line,
    }
    if form in known:
        return known[form]
    if "%" not in form:
        raise SettingsError(
            f"--format {form!r} is none of table, raw and json, and no format with fields such as '%o %s\\n'"
        )
    pieces = tuple(_pieces(form))
    return lambda message, queue: b"".join([piece(message, queue) for piece in pieces])


def _pieces(form: str) -> Iterable[Render]:
    letters = iter(form)
    for letter in letters:
        if letter == "%":
            name = next(letters, "")
            if name not in FIELDS:
                raise SettingsError(
                    f"%{name} in --format is no field; there are {' '.join(f'%{each}' for each in FIELDS)}"
                )
            yield FIELDS[name][1]
        elif letter == "\\":
            name = next(letters, "\\")
            yield _constant(CHARACTERS.get(name, f"\\{name}".encode()))
        else:
            yield _constant(letter.encode())


def _constant(text: bytes) -> Render:
    return lambda _message, _queue: text


def _place(message: StoredMessage, queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}@{message.queue_offset}"


def _line(message: StoredMessage, queue: MessageQueue) -> bytes:
    marks = " ".join(filter(None, (message.tag, *message.keys)))
    body = f"(cannot be read: {message.body_fault})" if message.body_fault else body_text(message.body)
    place = _place(message, queue)
    return f"{time_text(message.store_timestamp)}  {place:<20}  {marks:<16}  {body}\n".encode()


def _json_line(message: StoredMessage, queue: MessageQueue) -> bytes:
    return msgspec.json.encode(message_fields(message, queue)) + b"\n"


def message_fields(message: StoredMessage, queue: MessageQueue) -> dict[str, Any]:
    """Return the fields of a message for JSON."""
    due = due_ms(message.properties)
    return {
        "topic": message.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "queueOffset": message.queue_offset,
        "messageId": message.unique_key,
        "storeTimestamp": message.store_timestamp,
        "bornTimestamp": message.born_timestamp,
        **({} if due is None else {"dueTimestamp": due}),
        "reconsumeTimes": message.reconsume_times,
        "tag": message.tag,
        "keys": message.keys,
        "shardingKey": message.properties.get(keys.SHARDING_KEY, ""),
        "properties": message.properties,
        **body_fields(message.body),
        **({"bodyFault": message.body_fault} if message.body_fault else {}),
    }
