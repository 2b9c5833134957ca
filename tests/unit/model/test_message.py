"""A message is refused where it is made, with what was expected, if a part of it is not of its type."""

import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.errors import IllegalMessage
from firearrow.model import Message

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"body": "text"}, r"bytes; this is of type str.*encode"),
    ({"body": {"id": 1}}, r"bytes; this is of type dict"),
    ({"body": None}, r"bytes; this is None"),
    ({"body": 7}, r"bytes; this is of type int"),
    ({"topic": b"T"}, r"topic of a message is a str; this is of type bytes"),
    ({"topic": None}, r"topic of a message is a str; this is None"),
    ({"properties": {"k": 7}}, r"'k': 7"),
    ({"properties": {7: "v"}}, r"7: 'v'"),
    ({"properties": [("k", "v")]}, r"mapping of str to str; these are of type list"),
    ({"keys": 7}, r"keys of a message are one str or several; these are 7"),
    ({"keys": ["a", 7]}, r"keys of a message are one str or several"),
    ({"keys": ["a", "order 7"]}, r"'order 7' has a space"),
    ({"delay_level": -1}, r"delay_level=-1 is not a delay level"),
    ({"delay_level": "3"}, r"delay_level='3' is not a delay level"),
    ({"tag": 7}, r"'TAGS': 7"),
    ({"sharding_key": 7}, r"'SHARDING_KEY': 7|7"),
]


@pytest.mark.parametrize(("part", "told"), WRONG)
def test_wrong_types_are_refused_where_they_are_given(part: dict[str, Any], told: str) -> None:
    parts: dict[str, Any] = {"topic": "T", "body": b"body", **part}
    with pytest.raises(IllegalMessage, match=told):
        Message.of(**parts)
    with pytest.raises(IllegalMessage, match=told):
        Message(**parts)


@pytest.mark.parametrize("flag", [1 << 40, "7", -(2**31) - 1])
def test_a_flag_is_an_int_of_32_bits(flag: Any) -> None:
    with pytest.raises(IllegalMessage, match="flag"):
        Message("T", b"body", {}, flag)


def test_a_message_is_made_of_its_usual_parts() -> None:
    message = Message("T", b"body", tag="new", keys="order-7", delay_level=3, sharding_key="k")
    assert message == Message.of("T", b"body", tag="new", keys=["order-7"], delay_level=3, sharding_key="k")
    assert message.keys == ["order-7"]
    assert message.properties == {"TAGS": "new", "KEYS": "order-7", "DELAY": "3", "__SHARDINGKEY": "k"}
    assert Message("T", b"body", keys=["a", "b"]).keys == ["a", "b"]
    assert Message("T", b"body").properties == {}


@pytest.mark.parametrize("body", [bytearray(b"body"), memoryview(b"body")])
def test_whatever_is_bytes_becomes_bytes(body: Any) -> None:
    assert Message("T", body).body == b"body"
    assert type(Message("T", body).body) is bytes


def test_messages_are_frozen_and_can_be_pickled_and_copied() -> None:
    message = Message("T", b"body", {"k": "v"}, 7)
    assert pickle.loads(pickle.dumps(message)) == message
    assert replace(message, flag=8).flag == 8
    with pytest.raises(AttributeError):
        message.body = b"other"  # type: ignore[misc]
