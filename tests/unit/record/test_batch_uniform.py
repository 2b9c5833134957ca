"""Batches that are uniform, and batches that are not."""

import pytest

from firearrow.errors import BadBody
from firearrow.model import Message
from firearrow.record.batch import columns_of, encode_batch
from firearrow.record.columns import UniformProperties

KEY = "7F00000118B4AAC20001000123450000"


def batch(*properties: dict[str, str], flags: tuple[int, ...] = (), bodies: tuple[bytes, ...] = ()) -> bytes:
    """A batch of messages with these properties."""
    return encode_batch(
        [
            Message("T", bodies[at] if bodies else b"body", given, flags[at] if flags else 0)
            for at, given in enumerate(properties)
        ]
    )


def key(number: int) -> dict[str, str]:
    """The properties of a stock producer's message."""
    return {"UNIQ_KEY": f"{KEY[:-4]}{number:04X}", "WAIT": "true"}


def test_a_batch_of_one_producer() -> None:
    shared = columns_of(batch(key(1), key(2), key(0xFFFF)), 0, 0).properties
    assert type(shared) is UniformProperties
    assert len(shared) == 3
    assert shared.values == {
        b"UNIQ_KEY": tuple(KEY[:-4].encode() + end for end in (b"0001", b"0002", b"FFFF")),
        b"WAIT": (b"true",) * 3,
    }
    assert shared[1:] == [shared[1], shared[2]] == list(shared)[1:]
    assert shared[-1] == b"UNIQ_KEY\x01" + KEY[:-4].encode() + b"FFFF\x02WAIT\x01true\x02"


def is_uniform(sent: bytes) -> bool:
    """Whether a batch is cut by columns."""
    return type(columns_of(sent, 0, 0).properties) is UniformProperties


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        batch(key(1)),
        batch(key(1), key(2), flags=(0, 1)),
        batch({}, {}),
        batch(key(1), key(2) | {"TAGS": "a"}),
        batch(key(1) | {"TAGS": "a"}, key(2) | {"TAGS": "bc"}),
        batch(key(1) | {"a": "xy"}, key(2) | {"ax": "y"}),
        batch(key(1) | {"a": "x"}, key(2) | {"b": "x"}),
        batch(key(1) | {"x#": "a"}, key(2) | {"x#": "a"}),
        batch({"a": "1", "b": "2"}, {"b": "2", "a": "1"}),
        batch({"a": "1"}, {"a": "2"}).replace(b"a\x01", b"\x01a"),
        batch({"a": "1", "b": "2"}, {"a": "3", "b": "4"}).replace(b"b", b"a"),
    ],
)
def test_batches_that_are_not_uniform(sent: bytes) -> None:
    assert not is_uniform(sent)


@pytest.mark.parametrize(
    "sent",
    [
        batch(key(1), key(2), bodies=(b"a", b"bc")),
        batch({"WAIT": "true"}, {"WAIT": "true"}),
        batch({"UNIQ_KEY": KEY}, {"UNIQ_KEY": "8" + KEY[1:]}),
        batch(key(1) | {"TAGS": "a"}, key(2) | {"TAGS": "b"}),
        batch(key(1) | {"x": "#"}, key(2) | {"x": "y"}),
        batch({"KEYS": "one"}, {"KEYS": "two"}, {"KEYS": "\u00e9e"}),
    ],
)
def test_batches_that_are_uniform(sent: bytes) -> None:
    assert is_uniform(sent)


def test_properties_that_are_not_closed() -> None:
    open_ended = batch({"UNIQ_KEY": KEY}, {"UNIQ_KEY": KEY[:-1] + "1"}).replace(b"\x02", b"\x03")
    assert not is_uniform(open_ended)


def test_a_stated_length_that_is_wrong() -> None:
    sent = batch(key(1), key(2))
    length = len(sent) // 2
    at = 20 + len(b"body") + 1
    wrong = bytearray(sent)
    wrong[at] -= 1
    wrong[length + at] -= 1
    with pytest.raises(BadBody):
        columns_of(bytes(wrong), 0, 0)
