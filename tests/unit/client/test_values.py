"""Values and bodies: what serializers make, and what is said when one cannot."""

import json
from dataclasses import dataclass
from typing import Any, assert_type

import msgspec
import pytest

from firearrow import blocking
from firearrow.client import Consumer, Message, MessageQueue, Producer, PullConsumer, ReceivedMessage
from firearrow.client.consumer.direct_message import DirectSettler
from firearrow.client.consumer.window import Window
from firearrow.errors import BadBody, IllegalMessage, SettingsError
from firearrow.model import Host, StoredMessage
from firearrow.model.units import EpochMs, PhysicalOffset, QueueOffset
from firearrow.serializers import Deserializer, Json, Msgpack, Pydantic

AT = "127.0.0.1:9876"


class Order(msgspec.Struct):
    id: int
    item: str


@dataclass
class Plain:
    id: int
    item: str


def received(body: bytes, deserializer: Deserializer[object] | None) -> ReceivedMessage[object]:
    host = Host("127.0.0.1", 10911)
    stored = StoredMessage(
        topic="orders",
        body=body,
        properties={"UNIQ_KEY": "7F0000010001"},
        flag=0,
        sys_flag=0,
        queue_id=2,
        queue_offset=QueueOffset(41),
        physical_offset=PhysicalOffset(4711),
        born_timestamp=EpochMs(0),
        born_host=host,
        store_timestamp=EpochMs(0),
        store_host=host,
        reconsume_times=0,
        prepared_transaction_offset=PhysicalOffset(0),
        body_crc=0,
        store_size=100,
    )
    return ReceivedMessage(stored, MessageQueue("orders", "broker-a", 2), Window(41), DirectSettler(deserializer))


def test_pairs_go_there_and_back() -> None:
    assert Json().decode(Json().encode({"a": [1, None, "x"]})) == {"a": [1, None, "x"]}
    order, plain = Order(7, "espresso"), Plain(7, "espresso")
    assert Json(Order).encode(order) == b'{"id":7,"item":"espresso"}'
    assert Json(Order).decode(Json(Order).encode(order)) == order
    assert Json(Plain).decode(Json(Plain).encode(plain)) == plain
    assert Msgpack(Order).decode(Msgpack(Order).encode(order)) == order
    assert Json(list[Order]).decode(b'[{"id":7,"item":"espresso"}]') == [order]


def test_a_pydantic_model_goes_there_and_back() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", id=(int, ...), item=(str, ...))
    pair = Pydantic(model)
    assert pair.decode(pair.encode(model(id=7, item="espresso"))) == model(id=7, item="espresso")
    with pytest.raises(
        BadBody, match=r"cannot be deserialized: ValidationError: 1 validation error for Order item"
    ) as e:
        _ = received(b'{"id": 7}', pair.decode).value
    assert "\n" not in str(e.value)


def test_a_message_is_made_of_a_value() -> None:
    producer = Producer(AT, serializer=Json(Order).encode)
    made = producer.message("orders", Order(7, "espresso"), tag="new", keys="order-7", sharding_key="s")
    assert made == Message("orders", b'{"id":7,"item":"espresso"}', tag="new", keys="order-7", sharding_key="s")
    assert blocking.Producer(AT, serializer=Json(Order).encode).message("t", Order(7, "x")).topic == "t"
    assert Producer(AT).message("orders", b"bytes") == Message("orders", b"bytes")


def test_what_a_serializer_cannot_do_is_said_where_it_is_asked() -> None:
    with pytest.raises(IllegalMessage, match="with a value of type object: TypeError: Encoding objects"):
        Producer(AT, serializer=Json().encode).message("orders", object())
    with pytest.raises(IllegalMessage, match="the body of a message is bytes; this is of type str"):
        Producer(AT, serializer=str).message("orders", 7)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="give a function from a value to bytes; write its encode or decode"):
        Producer(AT, serializer=Json(Order))  # type: ignore[call-overload]
    for kind in (Consumer, PullConsumer):
        with pytest.raises(SettingsError, match="deserializer='json': give a function from bytes to a value"):
            kind(AT, group="G", deserializer="json")  # type: ignore[call-overload]


def test_a_value_is_made_once_and_only_when_asked_for() -> None:
    calls: list[bytes] = []

    def count(body: bytes) -> int:
        calls.append(body)
        return len(calls)

    message = received(b"x", count)
    assert message.body == b"x"
    assert calls == []
    assert [message.value, message.value] == [1, 1]
    assert received(b"x", None).value == b"x"


def test_a_body_that_is_no_value_names_topic_queue_offset_and_id() -> None:
    with pytest.raises(BadBody) as error:
        _ = received(b"{", Json(Order).decode).value
    assert str(error.value) == (
        "the body of 7F0000010001 (orders, broker-a:2, offset 41) cannot be deserialized: "
        "DecodeError: Input data was truncated"
    )
    assert isinstance(error.value.__cause__, msgspec.DecodeError)


def test_types_follow_the_functions() -> None:
    """mypy is the one who can fail here."""
    orders = Json(Order)
    assert_type(Producer(AT), Producer[bytes])
    assert_type(Producer(AT, serializer=orders.encode), Producer[Order])
    assert_type(Consumer(AT, group="G"), Consumer[bytes])
    assert_type(Consumer(AT, group="G", deserializer=orders.decode), Consumer[Order])
    assert_type(blocking.Consumer(AT, group="G", deserializer=json.loads), blocking.Consumer[Any])

    async def handle(message: ReceivedMessage[Order]) -> None:
        assert_type(message.value, Order)

    def handle_here(message: blocking.ReceivedMessage[Order]) -> None:
        assert_type(message.value, Order)

    def consumers() -> None:
        _ = Consumer(AT, group="G", deserializer=orders.decode).run(handle)
        _ = Consumer(AT, group="G", deserializer=str).run(handle)  # type: ignore[arg-type]
        blocking.Consumer(AT, group="G", deserializer=orders.decode).run(handle_here)

    assert callable(consumers)


def test_a_message_shows_what_is_for_users() -> None:
    """Neither ``dir``, nor ``help``, nor ``repr`` tells what a message remembers for its consumer."""
    message = received(b"x", None)
    assert {name for name in dir(message) if not name.startswith("_")} == {
        "ack",
        "body",
        "body_fault",
        "born_timestamp",
        "is_settled",
        "keys",
        "message_id",
        "offset_message_id",
        "place",
        "process",
        "properties",
        "queue",
        "queue_offset",
        "reconsume_times",
        "release",
        "retry",
        "store_timestamp",
        "stored",
        "tag",
        "topic",
        "value",
    }
    assert {name for name in dir(message) if not name.startswith("_")} == {
        name for name in dir(blocking.ReceivedMessage) if not name.startswith("_")
    }
    assert repr(message) == "<ReceivedMessage 7F0000010001 of orders, broker-a:2>"
