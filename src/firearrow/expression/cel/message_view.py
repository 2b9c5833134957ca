"""The variables of a message that a CEL expression sees. Pure.

| variable | type | what it is |
|---|---|---|
| ``properties`` | map of strings | the properties of the message |
| ``topic`` | string | the topic that the message was sent to |
| ``tag`` | string | the tag, or an empty text |
| ``keys`` | list of strings | the keys |
| ``body`` | any | the body as JSON; every number is a double. An error if it is not JSON, or too large |
| ``born_ms`` | int | when the producer made the message, in milliseconds since 1970 |
| ``store_ms`` | int | when the broker stored it |
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from firearrow.expression.cel.meter import CostMeter
from firearrow.expression.cel.values import Value
from firearrow.expression.errors import NoValue
from firearrow.expression.steps import CHARACTERS_A_STEP
from firearrow.model import keys

MOST_BODY_BYTES: Final = 256 * 1024
"""Default of the largest body, after decompression, that a filter reads."""
BODY_BYTES_A_STEP: Final = 256
BODY_VALUES_A_STEP: Final = 8
_SIGNS: Final = (b",", b"[", b"{")


def _refuse(constant: str) -> NoReturn:
    raise NoValue(f"the body is not JSON: {constant} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(parse_int=float, parse_constant=_refuse)


def parsed_body(body: bytes) -> Value:
    """Return a body as a value of CEL; raise `NoValue` if it is not JSON."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise NoValue("the body is not JSON: it is not UTF-8") from None
    except ValueError as wrong:
        raise NoValue(f"the body is not JSON: {wrong}") from None
    except RecursionError:
        raise NoValue("the body is not JSON that a filter reads: it is nested too deeply") from None


class MessageView:
    """One message. ``read_body`` is called when an expression looks at the body, and may raise `NoValue`."""

    __slots__ = ("_body", "_keys", "_no_body", "born_ms", "properties", "read_body", "store_ms", "topic")

    def __init__(
        self, topic: str, properties: Mapping[str, str], read_body: Callable[[], bytes], born_ms: int, store_ms: int
    ) -> None:
        self.topic = topic
        self.properties = dict(properties)
        self.read_body = read_body
        self.born_ms = born_ms
        self.store_ms = store_ms
        self._no_body = ""
        """The reason why the body has no value; empty while that is not known."""

    def body(self, meter: CostMeter) -> Value:
        """Return the body as JSON, read once; reading it costs steps by its length and its number of values."""
        if self._no_body:
            raise NoValue(self._no_body)
        try:
            return self._body
        except AttributeError:
            pass
        try:
            body = self.read_body()
            meter.charge(len(body) // BODY_BYTES_A_STEP + sum(map(body.count, _SIGNS)) // BODY_VALUES_A_STEP)
            self._body: Value = parsed_body(body)
        except NoValue as wrong:
            self._no_body = str(wrong)
            raise
        return self._body

    def keys(self, meter: CostMeter) -> Value:
        """Return the keys, split once; splitting costs steps by their length."""
        try:
            return self._keys
        except AttributeError:
            text = self.properties.get(keys.KEYS, "")
            meter.charge(len(text) // CHARACTERS_A_STEP)
            self._keys: Value = text.split()
            return self._keys


VARIABLES: Final[Mapping[str, Callable[[CostMeter], Value]]] = {
    "properties": lambda meter: meter.subject.properties,
    "topic": lambda meter: meter.subject.topic,
    "tag": lambda meter: meter.subject.properties.get(keys.TAGS, ""),
    "keys": lambda meter: meter.subject.keys(meter),
    "body": lambda meter: meter.subject.body(meter),
    "born_ms": lambda meter: meter.subject.born_ms,
    "store_ms": lambda meter: meter.subject.store_ms,
}
"""The variables of an expression about a message."""
