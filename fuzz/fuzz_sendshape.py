"""Sends of one shape: whatever a shape that was learned from a frame takes reads as the decoder reads it."""

from msgspec.structs import replace

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.protocol.command import Encoding
    from firearrow.protocol.frame import FrameSplitter
    from firearrow.protocol.sendshape import SendShape
    from firearrow.protocol.serialize import decode_request, encode_request

from firearrow.testing.samples import SEND


def target(data: bytes) -> None:
    frames = FrameSplitter().feed(data)
    if not frames:
        return
    shape = SendShape.learn(frames[0][0], frames[0][1])
    run_of = shape.cut(data, b"") if shape is not None else None
    if shape is None or run_of is None:
        return
    for number, (encoding, header, body) in enumerate(frames[: len(run_of.bodies)]):
        heading = decode_request(encoding, header)
        expected = replace(
            shape.request,
            queue_id=run_of.queue_ids[number],
            born_timestamp=run_of.born[number],
            properties=run_of.properties[number].decode(),
        )
        assert heading.request == expected
        assert (heading.opaque, body) == (run_of.opaques[number], run_of.bodies[number])


def seeds() -> list[bytes]:
    """Two sends of one shape, in each encoding."""
    other = replace(SEND, queue_id=3, properties=(SEND.properties or "").replace("TagA", "TagB"))
    pairs = [[encode_request(encoding, one, 7, body_size=1) for one in (SEND, other)] for encoding in Encoding]
    return [b"".join(head + b"x" for head in pair) for pair in pairs]


if __name__ == "__main__":
    run(target, seeds=seeds())
