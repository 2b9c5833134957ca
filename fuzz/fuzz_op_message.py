"""Op messages: any body is read, and what is read from it is written and read again."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.record.op_message import op_bodies, parse_op


def target(data: bytes) -> None:
    offsets = parse_op(data)
    for is_single in (False, True):
        bodies = op_bodies(offsets, max_size=64, is_single=is_single)
        assert [offset for body in bodies for offset in parse_op(body)] == offsets


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    parse_op(data)


if __name__ == "__main__":
    run(target, seeds=[b"17", b"17,18,", b"0,,-1,x," + b"9" * 30, b""])
