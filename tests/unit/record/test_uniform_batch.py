"""Which batches are uniform, and which are not."""

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
    assert (len(shared), shared.key_head) == (3, KEY[:-8].encode())
    assert shared.ends == (b"23450001", b"23450002", b"2345FFFF")
    assert shared.before == b"UNIQ_KEY\x01" + KEY[:-8].encode()
    assert shared.after == b"\x02WAIT\x01true\x02"
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
        batch(key(1), key(2), bodies=(b"a", b"bc")),
        batch({"WAIT": "true"}, {"WAIT": "true"}),
        batch({"UNIQ_KEY": "1234567"}, {"UNIQ_KEY": "1234568"}),
        batch({"UNIQ_KEY": "-" * 32}, {"UNIQ_KEY": "-" * 31 + "+"}),
        batch({"MY_UNIQ_KEY": KEY}, {"MY_UNIQ_KEY": KEY}),
        batch(key(1) | {"TAGS": "a"}, key(2) | {"TAGS": "b"}),
        batch(key(1) | {"x": "#"}, key(2) | {"x": "#"}),
        batch({"UNIQ_KEY": KEY}, {"UNIQ_KEY": "8" + KEY[1:]}),
    ],
)
def test_batches_that_are_not_uniform(sent: bytes) -> None:
    assert not is_uniform(sent)


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
