"""Protobuf bodies: one message each, by a descriptor set of protoc (``--include_imports``) or a registry.

Fields without presence have their default where a body does not have them, as Protobuf means it; others are null. Enums
are texts. What the descriptor does not know is rescued by field number, each with the list of its values: numbers, and
bytes in base64. A registered body names its message by its place in the schema's file.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, unknown_fields
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql import types as T  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError
from firearrow.spark.bodies.avro_types import json_text
from firearrow.spark.bodies.misfit import DecodedBody, Misfit, shown
from firearrow.spark.bodies.registry import SchemaRegistry, split

Convert = Callable[[Any], Any]
F: Final = FieldDescriptor
_PLAIN: Final[dict[int, T.DataType]] = {
    F.CPPTYPE_INT32: T.IntegerType(),
    F.CPPTYPE_INT64: T.LongType(),
    F.CPPTYPE_UINT32: T.LongType(),
    F.CPPTYPE_UINT64: T.DecimalType(20, 0),
    F.CPPTYPE_DOUBLE: T.DoubleType(),
    F.CPPTYPE_FLOAT: T.FloatType(),
    F.CPPTYPE_BOOL: T.BooleanType(),
    F.CPPTYPE_ENUM: T.StringType(),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_AS_JSON: Final = (
    "google.protobuf.Struct",
    "google.protobuf.Value",
    "google.protobuf.ListValue",
    "google.protobuf.Any",
)
_WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


class ProtobufBodies:
    """Reads Protobuf bodies."""

    def __init__(self, descriptors: str, message: str, registry: str = "") -> None:
        kind = descriptor_of(base64.b64decode(descriptors), message)
        self._class = message_factory.GetMessageClass(kind)
        self._place = _place(kind)
        self._name = kind.full_name
        self._fields = list(_columns(kind, (kind.full_name,)))
        self.schema = T.StructType([T.StructField(name, made) for name, made, _ in self._fields])
        self._is_registered = bool(registry)

    def decode(self, body: bytes) -> DecodedBody:
        """A body as values of the schema."""
        if self._is_registered:
            body = self._framed(body)
        message = self._class()
        try:
            message.ParseFromString(body)
        except DecodeError as wrong:
            raise Misfit(f"the body is not Protobuf: {shown(wrong)}") from None
        missing = message.FindInitializationErrors()
        if missing:
            raise Misfit(f"field {missing[0]} is required and missing")
        rest = unknown_of(message)
        values = tuple(get(message) for _, _, get in self._fields)
        return DecodedBody(values, json_text(rest) if rest else None)

    def _framed(self, body: bytes) -> bytes:
        _, datum = split(body)
        place, rest = message_indexes(datum)
        if place != self._place:
            raise Misfit(f"the body is message {place} of its schema's file, and {self._name} is {self._place}")
        return rest


def message_indexes(datum: bytes) -> tuple[list[int], bytes]:
    """Return the indexes of a registered body's message in its file (Confluent's zigzag numbers), and the rest."""
    count, at = _zigzag(datum, 0)
    found = []
    if count < 0 or count > len(datum):
        raise Misfit("the body does not say which message of its schema it is")
    for _ in range(count):
        number, at = _zigzag(datum, at)
        found.append(number)
    return found or [0], datum[at:]


def _zigzag(datum: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(datum) and shift < 64:
        byte = datum[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise Misfit("the body does not say which message of its schema it is")


def _place(kind: Descriptor) -> list[int]:
    found = []
    while kind.containing_type is not None:
        found.append(kind.containing_type.nested_types.index(kind))
        kind = kind.containing_type
    names = list(kind.file.message_types_by_name)
    return [names.index(kind.name), *reversed(found)]


def descriptor_of(descriptors: bytes, message: str) -> Descriptor:
    """A message of a descriptor set by its full name; the only one of the last file, without a name."""
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
    except DecodeError as wrong:
        raise SettingsError(f"the descriptor set of bodies cannot be read: {wrong}; make it with protoc") from None
    pool = descriptor_pool.DescriptorPool()
    for file in _ordered(files):
        pool.AddSerializedFile(file.SerializeToString())
    if not message:
        last = files.file[-1]
        if len(last.message_type) != 1:
            raise SettingsError(f"{last.name} has {len(last.message_type)} messages; name one with --body-message")
        message = f"{last.package}.{last.message_type[0].name}".lstrip(".")
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise SettingsError(f"the descriptor set has no message {message}; give its full name, package first") from None


def _ordered(files: descriptor_pb2.FileDescriptorSet) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    """Every file after those that it imports; those of Google that are missing are added."""
    given = {file.name: file for file in files.file}
    done: set[str] = set()

    def after(name: str, importer: str) -> Iterator[descriptor_pb2.FileDescriptorProto]:
        if name in done:
            return
        done.add(name)
        file = given.get(name) or _of_google(name)
        if file is None:
            raise SettingsError(f"{importer} imports {name}, which is missing: run protoc with --include_imports")
        for needed in file.dependency:
            yield from after(needed, name)
        yield file

    for name in given:
        yield from after(name, name)


def _of_google(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    word = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if word not in _WELL_KNOWN:
        return None
    import importlib

    module = importlib.import_module(f"google.protobuf.{word}_pb2")
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _columns(kind: Descriptor, path: tuple[str, ...]) -> Iterator[tuple[str, T.DataType, Convert]]:
    """The columns of a message: name, type, and what takes their value out of a message."""
    for field in kind.fields:
        made, convert = _value(field, path)
        yield field.name, *_held(field, made, convert, path)


def _held(
    field: FieldDescriptor, made: T.DataType, convert: Convert, path: tuple[str, ...]
) -> tuple[T.DataType, Convert]:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        (key_type, key_of), (value_type, value_of) = _value(key, path), _value(value, path)
        kind = T.MapType(key_type, value_type)
        return kind, lambda message: [(key_of(k), value_of(v)) for k, v in getattr(message, name).items()]
    if field.is_repeated:
        return T.ArrayType(made), lambda message: [convert(each) for each in getattr(message, name)]
    if field.has_presence:
        return made, lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return made, lambda message: convert(getattr(message, name))


def _value(field: FieldDescriptor, path: tuple[str, ...]) -> tuple[T.DataType, Convert]:
    kind = field.message_type
    if kind is not None:
        return _message(kind, path)
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return T.StringType(), lambda number: names.get(number, str(number))
    if field.cpp_type == F.CPPTYPE_UINT64:
        return _PLAIN[F.CPPTYPE_UINT64], Decimal
    if field.cpp_type == F.CPPTYPE_STRING:
        return (T.BinaryType(), lambda value: value) if field.type == F.TYPE_BYTES else (T.StringType(), _text)
    return _PLAIN[field.cpp_type], lambda value: value


def _message(kind: Descriptor, path: tuple[str, ...]) -> tuple[T.DataType, Convert]:
    if kind.full_name == _TIMESTAMP:
        return T.TimestampType(), _moment
    if kind.full_name in _AS_JSON or kind.full_name in path:  # a message inside itself has no type as a column
        return T.StringType(), _json
    columns = list(_columns(kind, (*path, kind.full_name)))
    made = T.StructType([T.StructField(name, inner) for name, inner, _ in columns])
    return made, lambda message: {name: get(message) for name, _, get in columns}


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):  # of a message of proto2, which does not require UTF-8
        raise Misfit(f"a text is no UTF-8: {shown(value)}")
    return value


def _json(message: Message) -> str:
    try:
        return str(json_format.MessageToJson(message, indent=None, descriptor_pool=message.DESCRIPTOR.file.pool))
    except (TypeError, ValueError, json_format.Error) as wrong:  # an Any of an unknown message, a Value that is NaN
        raise Misfit(f"a {message.DESCRIPTOR.full_name} has no form in JSON: {shown(wrong)}") from None


def _moment(message: Any) -> datetime:  # noqa: ANN401 - google.protobuf.Timestamp of any pool
    try:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise Misfit(f"a timestamp is outside of the years 1 to 9999: {message.seconds} seconds since 1970") from None


def unknown_of(message: Message) -> dict[str, Any]:
    """Return the fields that the descriptor does not know, by number, and those of inner messages by their names."""
    found = _unknown(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inner = _unknown_inside(field, value)
        if inner:
            found[field.name] = inner
    return found


def _unknown_inside(field: FieldDescriptor, value: Any) -> dict[str, Any]:  # noqa: ANN401 - of any field with messages
    if not field.is_repeated:
        return unknown_of(value)
    pairs: Iterable[tuple[Any, Any]] = enumerate(value)
    if field.message_type.GetOptions().map_entry:
        has_messages = field.message_type.fields_by_name["value"].message_type is not None
        pairs = value.items() if has_messages else ()
    found = {str(at): unknown_of(each) for at, each in pairs}
    return {at: left for at, left in found.items() if left}


def _unknown(fields: Any) -> dict[str, Any]:  # noqa: ANN401 - an UnknownFieldSet
    found: dict[str, list[Any]] = {}
    for field in fields:
        is_group = not isinstance(field.data, int | bytes)
        found.setdefault(str(field.field_number), []).append(_unknown(field.data) if is_group else field.data)
    return found


def registered_descriptors(registry: SchemaRegistry, subject: str) -> bytes:
    """The latest descriptors of a subject and of everything it refers to, as a descriptor set."""
    made = descriptor_pb2.FileDescriptorSet()
    seen: set[str] = set()

    def add(name: str, subject: str, version: str) -> None:
        if name in seen:
            return
        seen.add(name)
        found = registry.version(subject, version, serialized=True)
        for each in found.references:
            add(each["name"], each["subject"], str(each["version"]))
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(found.schema))
        file.name = name or file.name or f"{subject}.proto"
        made.file.append(file)

    add("", subject, "latest")
    return bytes(made.SerializeToString())
