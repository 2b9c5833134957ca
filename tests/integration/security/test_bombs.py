"""The class of CVE-2023-34455 (snappy) and kafkajs #1795: a small compressed body inflates without a limit.

Our rule: a limit goes into the decompressor itself: in the broker (filters that read bodies), in the name server
(registrations), in our client and in the columns that archives and Spark read. Snappy is no compression of this wire:
a body that says so is refused.
"""

import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard

from firearrow.columns.bodies import Treatment
from firearrow.columns.decode import decode_columns
from firearrow.errors import BadBody, FireArrowError
from firearrow.protocol.bodies.naming.registration import INFLATED_LIMIT
from firearrow.protocol.requests.admin.config import GetNamesrvConfig
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendMessage
from firearrow.protocol.requests.naming.registration import RegisterBroker
from firearrow.record.compression import Codec, decompress, with_codec
from firearrow.record.decode import decode
from judges.server_process import wait_for
from tests.integration.broker.raw import a_pull
from tests.integration.security.test_names import a_send
from tests.integration.security.victim import MEMORY_BYTES, Victim

pytestmark = pytest.mark.real

PLAIN_BYTES = 60 << 20
"""With LZ4 that is as much as fits into what a filter looks at."""
REGISTRATION_BYTES = 4 * INFLATED_LIMIT
FOUND = 0
PLAIN = bytes(PLAIN_BYTES)
BOMBS = {
    Codec.ZLIB: zlib.compress(PLAIN, 9),
    Codec.LZ4: lz4.frame.compress(PLAIN, store_size=False, block_linked=False),
    Codec.ZSTD: zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN),
}
SNAPPY_OF_NOBODY = 4 << 8 | 1
"""The first bits of a compression that nobody has defined."""
LARGEST_BODY = 4 << 20
del PLAIN


def replay(broker: Victim) -> None:
    """Store bombs and have a filter read their bodies."""
    for codec, bomb in BOMBS.items():
        request = a_send(SendMessage, "bombs", sys_flag=with_codec(0, codec))
        assert broker.ask(request, bomb).code == 0
    wait_for(lambda: broker.ask(pull(len(BOMBS) - 1)).code == FOUND, "the last bomb")
    broker.watch_memory()
    for offset in range(len(BOMBS)):
        answer = broker.ask(pull(offset, subscription="body.a == 1", expression_type="CEL"))
        assert answer.code != FOUND, "a body without JSON has passed"
    grown = broker.grown_bytes()
    assert grown < MEMORY_BYTES, f"a filter took {grown >> 20} MiB for {PLAIN_BYTES >> 20} MiB of zeros"


def pull(offset: int, **more: Any) -> PullMessage:
    """A pull of one message."""
    request: PullMessage = a_pull("bombs", offset=offset, max_msg_nums=1, **more)
    return request


def replay_at_name_server(names: Victim) -> None:
    """Register a broker with a bomb."""
    body = zlib.compress(bytes(REGISTRATION_BYTES), 9)
    request = RegisterBroker(
        broker_name="b",
        broker_addr="127.0.0.1:1",
        cluster_name="c",
        ha_server_addr="",
        broker_id=0,
        compressed=True,
        body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
    )
    names.watch_memory()
    answer = names.ask(request, body)
    assert answer.code != 0, "the registration was taken"
    assert "inflates" in answer.remark, answer
    grown, most = names.grown_bytes(), 2 * INFLATED_LIMIT + MEMORY_BYTES  # zlib joins what it has made
    assert grown < most, f"a registration took {grown >> 20} MiB"
    assert names.ask(GetNamesrvConfig()).code == 0


def peak(work: Callable[[], object]) -> int:
    """The most memory that Python's objects took while something was done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def replay_in_client(records: list[bytes]) -> None:
    """Decode stored bombs as consumers do, and as archives and Spark do."""
    for record in records:
        assert "inflates past" in decode(record, keep_bad_bodies=True).body_fault
        client = peak(lambda record=record: decode(record, keep_bad_bodies=True))  # type: ignore[misc]
        assert client < MEMORY_BYTES, f"a client took {client >> 20} MiB"
        lake = peak(lambda record=record: columns(record))  # type: ignore[misc]
        assert lake < MEMORY_BYTES, f"columns took {lake >> 20} MiB"


def columns(record: bytes) -> None:
    """Decode into columns, bad bodies kept and refused."""
    decode_columns(record, ["body"], broker="b", treatment=Treatment(keep_bad=True))
    with pytest.raises(FireArrowError, match="inflates past"):
        decode_columns(record, ["body"], broker="b", treatment=Treatment())


def test_bombs_take_no_memory_of_broker_client_and_columns() -> None:
    with Victim("broker") as broker:
        replay(broker)
        records = [broker.ask(pull(offset)).body for offset in range(len(BOMBS))]
    replay_in_client(records)


def test_a_registration_that_inflates_is_refused() -> None:
    with Victim("nameserver") as names:
        replay_at_name_server(names)


def test_snappy_is_no_compression_of_this_wire() -> None:
    with pytest.raises(BadBody, match="names no known compression"):
        decompress(b"\xff\xff\xff\xff\x0f", SNAPPY_OF_NOBODY, LARGEST_BODY)
