"""Bytes of a master, in any pieces, become spans that lie one behind the other, or are refused."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.errors import BadFrame, BadRecord
    from firearrow.protocol.ha_stream import HEADER, Reports, Spans, heartbeat, packets
    from firearrow.store.log.copied_log import whole_records


def target(data: bytes) -> None:
    step = data[0] + 1 if data else 1
    spans, expected = Spans(), -1
    Reports().feed(data)
    try:
        for at in range(0, len(data), step):
            for offset, part in spans.feed(data[at : at + step]):
                assert offset >= 0
                assert len(part) <= step or not part
                expected = offset + len(part)
    except BadFrame:
        pass
    assert expected >= -1
    try:
        found = whole_records(data, 0, 0, 4096)
    except BadRecord:
        return
    assert 0 <= found.end <= min(len(data), 4096)


SEED = b"".join([heartbeat(0), *packets(0, b"some bytes of a log", 7), HEADER.pack(19, 0)])


def parse(data: bytes) -> None:
    """Parse as a master does."""
    Reports().feed(data)


if __name__ == "__main__":
    run(target, seeds=[SEED, SEED[:30], b"", HEADER.pack(-1, 5)])
