"""A stream of arbitrary bytes into a connection: frames, headers and answers, in one piece and chopped."""

from fuzz.harness import instrumented, run

with instrumented():
    from firearrow.protocol.connection import Connection, RequestArrived, StreamBroken
    from firearrow.protocol.frame import FrameSplitter
    from firearrow.protocol.requests.group.offset import GetMaxOffset
    from fuzz.costs import read_as_a_stranger

from fuzz.header_seeds import frames

PIECES = 9


def target(data: bytes) -> None:
    whole, chopped = FrameSplitter(), FrameSplitter()
    at_once = whole.feed(data)
    size = len(data) // PIECES + 1
    in_pieces = [frame for at in range(0, len(data), size) for frame in chopped.feed(data[at : at + size])]
    assert at_once == in_pieces
    assert (whole.fault is None) == (chopped.fault is None)
    converse(data)


def converse(data: bytes) -> None:
    connection = Connection()
    for _ in range(3):
        connection.call(GetMaxOffset(topic="T", queue_id=0), deadline=1)
    for event in connection.receive_data(data):
        if isinstance(event, RequestArrived):
            connection.answer(event, body=event.body)
            assert event.ext_fields is not None
        if isinstance(event, StreamBroken):
            assert connection.is_ended
    connection.data_to_send()
    assert len(connection.closed()) <= 3


def parse(data: bytes) -> None:
    """Parse as a server does, without the comparisons of the target."""
    read_as_a_stranger(data)


if __name__ == "__main__":
    run(target, seeds=frames())
