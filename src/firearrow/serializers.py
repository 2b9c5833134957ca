"""Serializers and deserializers: from values to bodies, and from bodies to values.

    orders = Json(Order)

    Producer(address, group="shop", serializer=orders.encode)       # await producer.send_value("orders", Order(7))
    Consumer(address, group="bar", deserializer=orders.decode)      # message.value is an Order

A serializer is any function from a value to bytes, a deserializer any function from bytes to a value: ``json.loads``,
``Order.model_validate_json`` and those of Avro or Protobuf fit as they are. This module has pairs for JSON, MessagePack
and pydantic. An error of a deserializer is raised as ``BadBody`` with the message's queue and offset, and the message
is delivered again as after any error of a handler.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

import msgspec

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    V = TypeVar("V")

__all__ = ["Deserializer", "Json", "Msgpack", "Pydantic", "Serializer"]

Serializer = Callable[[V], bytes]
"""Turns a value into a body."""
Deserializer = Callable[[bytes], V]
"""Turns a body into a value."""


def is_coroutine_function(given: object) -> bool:
    """Whether calling this makes a coroutine: a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None))  # noqa: B004


def check_takes_one(function: Callable[..., object], name: str) -> None:
    """Raise ``SettingsError`` if a function cannot be called with one argument."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # some functions of C do not tell
    try:
        signature.bind(None)
    except TypeError as wrong:
        raise SettingsError(f"{name} cannot be called with one argument: {wrong}; let it take the message") from None


def checked_function(given: V, name: str, what: str) -> V:
    """Raise ``SettingsError`` unless ``given`` is a plain function."""
    if given is not None and not callable(given):
        hint = "; write its encode or decode" if hasattr(given, "decode") else ""
        raise SettingsError(f"{name}={given!r}: give a function from {what}{hint}")
    if is_coroutine_function(given):
        raise SettingsError(f"{name}={given!r}: give a plain function from {what}, it is not awaited")
    return given


class Json(Generic[V]):
    """JSON, for values of any kind, or of one type that bodies are checked against.

    A type is a ``msgspec.Struct``, a dataclass, a ``TypedDict``, an attrs class, or made of them: ``list[Order]``.
    """

    @overload
    def __init__(self: "Json[Any]") -> None: ...
    @overload
    def __init__(self, kind: type[V]) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, value: V) -> bytes:
        """Return the value as JSON."""
        return self._encoder.encode(value)

    def decode(self, body: bytes) -> V:
        """Return the value of a JSON body."""
        value: V = self._decoder.decode(body)
        return value


class Msgpack(Generic[V]):
    """MessagePack, smaller than JSON, for values of any kind, or of one type, as ``Json``."""

    @overload
    def __init__(self: "Msgpack[Any]") -> None: ...
    @overload
    def __init__(self, kind: type[V]) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, value: V) -> bytes:
        """Return the value as MessagePack."""
        return self._encoder.encode(value)

    def decode(self, body: bytes) -> V:
        """Return the value of a MessagePack body."""
        value: V = self._decoder.decode(body)
        return value


class Pydantic(Generic[V]):
    """JSON of a pydantic model, or of any type that pydantic checks. Needs pydantic 2."""

    def __init__(self, kind: type[V]) -> None:
        from pydantic import TypeAdapter

        self._adapter = TypeAdapter(kind)

    def encode(self, value: V) -> bytes:
        """Return the value as JSON."""
        return self._adapter.dump_json(value)

    def decode(self, body: bytes) -> V:
        """Return the value of a JSON body."""
        return self._adapter.validate_json(body)
