"""Sends of one shape: whatever a shape that was learned from a frame takes reads as the decoder reads it."""

from msgspec.structs import replace

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.protocol.command import Encoding
    from firearrow.protocol.frame import FrameSplitter
    from firearrow.protocol.send_shape import SendShape
    from firearrow.protocol.serialize import decode_request, encode_request

from campaigns.samples import SEND


def target(data: bytes) -> None:
    frames = FrameSplitter().feed(data)
    if not frames:
        return
    shape = SendShape.learn(frames[0][0], frames[0][1])
    columns = shape.cut(data) if shape is not None else None
    if shape is None or columns is None:
        return
    properties = shape.properties(columns, b"")
    for number, (encoding, header, body) in enumerate(frames[: len(columns.bodies)]):
        heading = decode_request(encoding, header)
        expected = replace(
            shape.request,
            queue_id=columns.queue_ids[number],
            born_timestamp=columns.births[number],
            properties=properties[number].decode(),
        )
        assert heading.request == expected
        assert (heading.opaque, body) == (columns.opaques[number], columns.bodies[number])


def seeds() -> list[bytes]:
    """Two sends of one shape, in each encoding, signed and not."""
    other = replace(SEND, queue_id=3, properties=(SEND.properties or "").replace("TagA", "TagB"))
    extras = (None, {"AccessKey": "a", "Signature": "c2lnbg=="})
    pairs = [
        [encode_request(encoding, request, 7, body_size=1, extra=extra) for request in (SEND, other)]
        for encoding in Encoding
        for extra in extras
    ]
    return [b"".join(head + b"x" for head in pair) for pair in pairs]


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    frames = FrameSplitter().feed(data)
    shape = SendShape.learn(frames[0][0], frames[0][1]) if frames else None
    columns = None if shape is None else shape.cut(data)
    if shape is not None and columns is not None:
        shape.properties(columns, b"")


if __name__ == "__main__":
    run(target, seeds=seeds())
