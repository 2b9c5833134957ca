"""The first bytes of a connection, split in every way."""

import pytest

from firearrow.errors import BadFrame
from firearrow.remoting.greeting import Greeting, Opening, StreamKind
from firearrow.runtime.network import Address

FRAME = bytes.fromhex("0000007f0000007b") + b"x" * 123
V2 = b"\r\n\r\n\x00\r\nQUIT\n"
TCP4 = V2 + b"\x21\x11\x00\x0c" + bytes([10, 0, 0, 7, 10, 0, 0, 1]) + (5555).to_bytes(2, "big") + b"\x26\x94"
TCP6 = V2 + b"\x21\x21\x00\x24" + bytes(15) + b"\x01" + bytes(15) + b"\x02" + (77).to_bytes(2, "big") + b"\x00\x01"
LOCAL = V2 + b"\x20\x00\x00\x03" + b"tlv"
UNIX = V2 + b"\x21\x31\x00\x04" + b"path"


def hear(data: bytes, step: int, *, proxy_protocol: bool = True) -> tuple[Opening | None, int]:
    """Feed ``data`` in pieces of ``step`` bytes; return what was opening and how many bytes that took."""
    greeting = Greeting(proxy_protocol=proxy_protocol)
    for start in range(0, len(data), step):
        opening = greeting.feed(data[start : start + step])
        if opening is not None:
            return opening, min(start + step, len(data))
    return None, len(data)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("preamble", "source"),
    [
        (b"", None),
        (b"PROXY TCP4 10.0.0.7 10.0.0.1 5555 9876\r\n", Address("10.0.0.7", 5555)),
        (b"PROXY TCP6 ::1 ::2 77 1\r\n", Address("::1", 77)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ff:: ff:: 1 2\r\n", None),
        (TCP4, Address("10.0.0.7", 5555)),
        (TCP6, Address("::1", 77)),
        (LOCAL, None),
        (UNIX, None),
    ],
)
@pytest.mark.parametrize(("first", "kind"), [(FRAME, StreamKind.PLAIN), (b"\x16\x03\x01\x00", StreamKind.TLS)])
def test_openings(preamble: bytes, source: Address | None, first: bytes, kind: StreamKind, step: int) -> None:
    opening, taken = hear(preamble + first, step)
    assert opening is not None
    assert (opening.kind, opening.source) == (kind, source)
    assert opening.rest == first[: taken - len(preamble)]


@pytest.mark.parametrize(
    "preamble",
    [
        b"PROXY " + b"x" * 200,
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        b"PROXY TCP4 localhost 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 x 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 70000 2\r\n",
        V2 + b"\x31\x11\x00\x0c" + bytes(12),
        V2 + b"\x21\x11\x00\x04" + bytes(4),
    ],
)
def test_a_bad_preamble_is_a_bad_frame(preamble: bytes) -> None:
    with pytest.raises(BadFrame):
        hear(preamble + FRAME, 1)


@pytest.mark.parametrize("preamble", [b"PROXY TCP4 10.0.0.7 10.0.0.1 5555 9876\r\n", TCP4])
def test_a_preamble_is_refused_where_the_limits_do_not_allow_it(preamble: bytes) -> None:
    with pytest.raises(BadFrame, match="proxy_protocol"):
        hear(preamble + FRAME, 1000, proxy_protocol=False)


def test_nothing_is_heard_from_a_preamble_alone() -> None:
    assert hear(TCP4, 1) == (None, len(TCP4))
