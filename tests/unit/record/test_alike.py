"""Which batches are taken by columns, and which one by one."""

import pytest

from firearrow.model import Message
from firearrow.record.alike import alike_of
from firearrow.record.batch import encode_batch, messages_of, pieces_of

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
    alike = alike_of(batch(key(1), key(2), key(0xFFFF)))
    assert alike is not None
    shared = alike.properties
    assert (len(alike), shared.key_head) == (3, KEY[:-8].encode())
    assert shared.ends == (b"23450001", b"23450002", b"2345FFFF")
    assert shared.before == b"UNIQ_KEY\x01" + KEY[:-8].encode()
    assert shared.after == b"\x02WAIT\x01true\x02"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 22,
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
def test_batches_that_are_not_alike(sent: bytes) -> None:
    assert alike_of(sent) is None
    if len(sent) > 22:
        assert messages_of(sent) == pieces_of(sent)


def test_properties_that_are_not_closed() -> None:
    open_ended = batch({"UNIQ_KEY": KEY}, {"UNIQ_KEY": KEY[:-1] + "1"}).replace(b"\x02", b"\x03")
    assert alike_of(open_ended) is None


def test_a_stated_length_that_is_wrong() -> None:
    sent = batch(key(1), key(2))
    length = len(sent) // 2
    at = 20 + len(b"body") + 1
    wrong = bytearray(sent)
    wrong[at] -= 1
    wrong[length + at] -= 1
    assert alike_of(bytes(wrong)) is None
