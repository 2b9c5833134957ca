"""Sends that a shape takes are those that the decoder would have read, whatever the bytes are."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.protocol.command import Encoding
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.requests.message.send import Send, SendMessage, SendMessageV2, ShortSend
from firearrow.protocol.send_shape import SendColumns, SendShape
from firearrow.protocol.serialize import decode_request, encode_request

many = settings(max_examples=200, deadline=None)
ENDING = b"END\x01%\x02"
encodings = st.sampled_from(list(Encoding))
words = st.text("0123456789ABCDEFabc-_. ", min_size=4, max_size=4)
names = st.permutations(["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "a%b", "ä"])


def long_names(request: SendMessageV2) -> SendMessage:
    values = {name: getattr(request, name) for name in SendMessage.__struct_fields__}
    return SendMessage(**values)


@st.composite
def sends(draw: st.DrawFn) -> list[bytes]:
    """Frames that differ in what may differ."""
    encoding, order = draw(encodings), draw(names)
    order = order[: draw(st.integers(1, len(order)))]
    order = order if "UNIQ_KEY" in order else [*order, "UNIQ_KEY"]
    is_short, digits, is_signed = draw(st.booleans()), draw(st.integers(0, 9)), draw(st.booleans())
    frames = []
    for _ in range(draw(st.integers(2, 6))):
        values = {name: draw(words) if name in ("UNIQ_KEY", "KEYS", "TAGS") else "true" for name in order}
        request = replace(
            SEND,
            queue_id=draw(st.integers(0, 9)),
            born_timestamp=draw(st.integers(10**12, 10**13 - 1)),
            properties="".join(f"{name}\x01{value}\x02" for name, value in values.items()),
        )
        opaque = draw(st.integers(10**digits if digits else 0, min(10 ** (digits + 1), 2**31) - 1))
        body = draw(st.binary(max_size=8))
        asked = request if is_short else long_names(request)
        extra = {"AccessKey": "a", "Signature": draw(words), "z": "z"} if is_signed else None
        frames.append(encode_request(encoding, asked, opaque, body_size=len(body), extra=extra) + body)
    return frames


def learned(frame: bytes) -> SendShape | None:
    ((encoding, header, _),) = FrameSplitter().feed(frame)
    return SendShape.learn(encoding, header)


def check(shape: SendShape, data: bytes, columns: SendColumns) -> None:
    """Every send is what the decoder makes of its bytes."""
    frames, stored = FrameSplitter().feed(data[: columns.end]), shape.properties(columns, ENDING)
    assert len(frames) == len(columns.bodies) == len(columns.opaques) == len(stored)
    for number, (encoding, header, body) in enumerate(frames):
        heading = decode_request(encoding, header)
        expected = replace(
            shape.request,
            queue_id=columns.queue_ids[number],
            born_timestamp=columns.births[number],
            properties=stored[number].removesuffix(ENDING).decode(),
        )
        assert heading.request == expected
        assert (heading.opaque, body, heading.flag) == (columns.opaques[number], columns.bodies[number], 0)
        assert f"UNIQ_KEY\x01{columns.unique_keys[number].decode()}\x02" in (expected.properties or "")


@many
@given(sends())
def test_sends_that_are_alike_are_taken(frames: list[bytes]) -> None:
    shape, data = learned(frames[0]), b"".join(frames)
    assert shape is not None
    columns = shape.cut(data)
    assert columns is not None
    assert columns.end == len(data)
    assert all(properties.endswith(ENDING) for properties in shape.properties(columns, ENDING))
    check(shape, data, columns)


@many
@given(sends(), st.data())
def test_whatever_is_taken_reads_the_same(frames: list[bytes], data: st.DataObject) -> None:
    shape = learned(frames[0])
    assert shape is not None
    altered = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(altered) - 1))
        altered[place] = data.draw(st.sampled_from(b'\x00\x01\x02#"\\0-+_ z') | st.integers(0, 255))
    if data.draw(st.booleans()):
        del altered[data.draw(st.integers(1, len(altered) - 1)) :]
    columns = shape.cut(bytes(altered))
    if columns is not None:
        check(shape, bytes(altered), columns)


@many
@given(sends(), st.data())
def test_a_shape_learned_from_anything_holds(frames: list[bytes], data: st.DataObject) -> None:
    ((encoding, header, body),) = FrameSplitter().feed(frames[0])
    altered = bytearray(header)
    for _ in range(data.draw(st.integers(0, 3))):
        altered[data.draw(st.integers(0, len(header) - 1))] = data.draw(
            st.sampled_from(b'\x00\x01\x02#"\\0eg:,{}') | st.integers(0, 255)
        )
    shape = SendShape.learn(encoding, bytes(altered))
    if shape is None:
        return
    assert isinstance(shape.request, Send | ShortSend)
    frame = frames[0][:8] + bytes(altered) + body
    others = b"".join(frames[1:])
    columns = shape.cut(frame + others)
    if columns is not None:
        check(shape, frame + others, columns)


def test_a_signature_that_ends_its_field_is_not_taken() -> None:
    wrong = '","e":"7","y":"'
    signed = {name: encode_request(Encoding.JSON, SEND, 1, extra={"Signature": name}) for name in ("s" * 15, "t" * 15)}
    shape = learned(signed["s" * 15])
    assert shape is not None
    assert shape.cut(signed["t" * 15]) is not None
    forged = signed["s" * 15].replace(b"s" * 15, wrong.encode())
    assert len(forged) == len(signed["s" * 15])
    assert shape.cut(forged) is None


def test_what_has_no_shape() -> None:
    unread = encode_request(Encoding.JSON, SEND, 1, extra={"unknown": "?"}).replace(b"?", b"\xff")
    assert learned(unread) is None
    oneway = encode_request(Encoding.JSON, SEND, 1, oneway=True)
    assert learned(oneway) is None
    plain = bytearray(encode_request(Encoding.COMPACT, SEND, 1))
    assert learned(bytes(plain)) is not None
    plain[17] = 1  # a flag that nobody knows
    assert learned(bytes(plain)) is None
    assert learned(encode_request(Encoding.COMPACT, replace(SEND, properties="TAGS\x01a\x02"), 1)) is None
    assert learned(encode_request(Encoding.JSON, replace(SEND, properties="UNIQ_KEY\x01\x02"), 1)) is None
    assert (
        learned(encode_request(Encoding.JSON, replace(SEND, properties="UNIQ_KEY\x01a\x02UNIQ_KEY\x01a\x02"), 1))
        is None
    )
    assert SendShape.learn(0, b"{}") is None
