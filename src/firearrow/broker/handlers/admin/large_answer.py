"""Large answers, such as all topics: built from pieces over several turns of the loop."""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Final

import msgspec

from firearrow.broker.state.state_file import in_pieces
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.protocol.bodies.body import Body, encode_body
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.runtime.turn import Pace, breathe

ANSWER_BYTES_MAX: Final = 15 << 20
"""The most bytes of an answer: clients accept frames of up to 16 MiB."""
NAMES_AT_ONCE: Final = 250
"""Names that are sorted in one turn of the loop."""
_OFFSETS: Final = b'"offsetTable":{'


async def put_together(pieces: Iterable[bytes], what: str) -> bytearray:
    """Join pieces into one body, with a pause after every piece; ``what`` is the text of the refusal when too large."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            remark = f"more than an answer of {ANSWER_BYTES_MAX >> 20} MiB holds"
            raise Refused(ResponseCode.SYSTEM_ERROR, what.format(remark))
        await breathe()
    return body


def queue_row(broker_name: str, topic: str, queue_id: int, value: Body) -> bytes:
    """Return a row of a map that is keyed by queues, as fastjson writes it."""
    name, encode = broker_name, msgspec.json.encode
    return b'{"brokerName":%b,"queueId":%d,"topic":%b}:%b' % (encode(name), queue_id, encode(topic), encode_body(value))


def with_queues(body: Body, rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body in pieces whose ``offsetTable``, empty in ``body``, has these rows."""
    head, _, tail = encode_body(body).partition(_OFFSETS)
    return in_pieces(iter(rows), head + _OFFSETS, tail)


async def in_order(names: Iterable[str]) -> list[str]:
    """Return names sorted, each once: some are sorted in a turn of the loop, and some merged."""
    pace, runs, run = Pace(NAMES_AT_ONCE), list[list[str]](), list[str]()
    for name in names:
        run.append(name)
        if len(run) == NAMES_AT_ONCE:
            runs.append(sorted(run))
            run = []
        await pace.did()
    ordered: list[str] = []
    for name in merge(*runs, sorted(run)):
        if not ordered or ordered[-1] != name:
            ordered.append(name)
        await pace.did()
    return ordered


async def topics_of(offsets: OffsetTable, group: str) -> list[str]:
    """Return the topics in which a group has offsets, sorted, as `in_order` sorts."""
    pace, topics = Pace(NAMES_AT_ONCE), list[str]()
    for topic in list(offsets.topics_with(group)):
        if offsets.queues_of(topic, group) is not None:
            topics.append(topic)
        await pace.did()
    return await in_order(topics)
