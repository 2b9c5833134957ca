"""The registration of a broker at a name server, as JSON and in the compressed form.

Java: ``remoting.protocol.body.RegisterBrokerBody``, ``common.TopicConfig.encode``. The compressed form is one zlib
stream (level 9) over::

    int length, DataVersion as JSON
    int number of topics; for each: int length, text "name read write perm filterType attributes-as-JSON"
    int length, list of filter servers as JSON
    int number of static topics; for each: int length, TopicQueueMappingInfo as JSON

Brokers before 5.0 write no attributes and end after the filter servers. Integers are big-endian. ``order`` and
``topicSysFlag`` of a topic are lost in it.

Invariants: at most ``limit`` bytes are inflated; for any bytes the outcome is a body or ``BadBody``.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.errors import BadBody
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.body import Body, empty_list, fresh
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Int32

INFLATED_LIMIT: Final = 64 * 1024 * 1024
FIRST_VERSION_WITH_MAPPINGS: Final = 413
_LENGTH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = msgspec.json.Decoder(dict[str, str])
_QUEUES: Final = msgspec.json.Decoder(Int32, strict=False)


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """The topics of the broker that registers."""

    filter_server_list: list[str] = empty_list()
    topic_config_serialize_wrapper: TopicConfigAndMappingTable = fresh(TopicConfigAndMappingTable)


def topic_text(topic: TopicConfig) -> str:
    """Return the one-line form of a topic."""
    words = (topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_filter_type)
    attributes = msgspec.json.encode(topic.attributes).decode()
    return " ".join(map(str, words)) + " " + attributes


def topic_from_text(text: str) -> TopicConfig:
    """Read the one-line form of a topic; attributes that hold a blank are lost, as in Java."""
    words = text.split(" ")
    if len(words) < 5:
        raise BadBody(f"a topic of a registration has {len(words)} words, at least 5 are needed: {text[:200]!r}")
    try:
        read, write, perm = (_QUEUES.decode(word) for word in words[1:4])
    except msgspec.MsgspecError as error:
        raise BadBody(f"a topic of a registration has a bad number: {text[:200]!r}") from error
    attributes = _attributes(words[5]) if len(words) > 5 else {}
    return TopicConfig(
        topic_name=words[0],
        read_queue_nums=read,
        write_queue_nums=write,
        perm=perm,
        topic_filter_type=words[4],
        attributes=attributes,
    )


def _attributes(text: str) -> dict[str, str]:
    try:
        return _ATTRIBUTES.decode(text)
    except msgspec.MsgspecError:
        return {}


def encode_registration(body: RegisterBrokerBody, *, compressed: bool) -> bytes:
    """Return the bytes of a registration as a 5.x broker sends it."""
    if not compressed:
        return fastjson.encode(body)
    table = body.topic_config_serialize_wrapper
    parts = [_prefixed(fastjson.encode(table.data_version))]
    parts += _counted([topic_text(topic).encode() for topic in table.topic_config_table.values()])
    parts.append(_prefixed(msgspec.json.encode(body.filter_server_list)))
    parts += _counted([fastjson.encode(info) for info in table.topic_queue_mapping_info_map.values()])
    return zlib.compress(b"".join(parts), 9)


def _prefixed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _counted(items: list[bytes]) -> Iterable[bytes]:
    yield _LENGTH.pack(len(items))
    yield from map(_prefixed, items)


def decode_registration(
    data: bytes, *, compressed: bool, version: int, limit: int = INFLATED_LIMIT
) -> RegisterBrokerBody:
    """Read a registration; ``version`` is the one in the header of the broker's request."""
    if not compressed:
        return fastjson.decode(data, RegisterBrokerBody)
    cursor = _RegistrationCursor(_inflate(data, limit))
    data_version = fastjson.decode(cursor.block(), DataVersion)
    topics = [topic_from_text(cursor.text()) for _ in range(cursor.number())]
    filter_servers = fastjson.decode(cursor.block(), list[str])
    mappings: list[TopicQueueMappingInfo] = []
    if version >= FIRST_VERSION_WITH_MAPPINGS:
        mappings = [fastjson.decode(cursor.block(), TopicQueueMappingInfo) for _ in range(cursor.number())]
    table = TopicConfigAndMappingTable(
        data_version=data_version,
        topic_config_table={topic.topic_name or "": topic for topic in topics},
        topic_queue_mapping_info_map={info.topic or "": info for info in mappings},
    )
    return RegisterBrokerBody(filter_server_list=filter_servers, topic_config_serialize_wrapper=table)


def _inflate(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, limit)
    except zlib.error as error:
        raise BadBody(f"a registration is not a zlib stream: {error}") from error
    if inflater.unconsumed_tail:
        raise BadBody(f"a registration inflates to more than {limit} bytes")
    if not inflater.eof:
        raise BadBody("a registration ends in the middle of its zlib stream")
    return inflated


class _RegistrationCursor:
    """Reads an inflated registration from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self) -> int:
        """The next integer, as a count."""
        if self._position + 4 > len(self._data):
            raise BadBody("a registration ends before a length")
        (value,) = _LENGTH.unpack_from(self._data, self._position)
        self._position += 4
        # Every counted item takes at least a length of four bytes, so a larger count cannot be true.
        if not 0 <= value <= len(self._data) - self._position:
            raise BadBody(f"a registration has the length {value} with {len(self._data) - self._position} bytes left")
        return int(value)

    def block(self) -> bytes:
        """The next length and as many bytes."""
        length = self.number()
        start = self._position
        self._position += length
        return self._data[start : self._position]

    def text(self) -> str:
        """The next block as text."""
        try:
            return self.block().decode()
        except UnicodeDecodeError as error:
            raise BadBody("a topic of a registration is not UTF-8") from error
