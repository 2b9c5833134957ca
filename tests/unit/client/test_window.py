"""The messages that a consumer holds of one queue."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firearrow.client.consumer.window import Window, WindowLimits
from firearrow.model import EpochMs, Host, PhysicalOffset, QueueOffset, StoredMessage

HERE = Host("127.0.0.1", 1)


def stored(offset: int, *, tag: str = "", size: int = 100, topic: str = "T") -> StoredMessage:
    return StoredMessage(
        topic=topic,
        body=b"%d" % offset,
        properties={"TAGS": tag} if tag else {},
        flag=0,
        sys_flag=0,
        queue_id=0,
        queue_offset=QueueOffset(offset),
        physical_offset=PhysicalOffset(offset * 1000),
        born_timestamp=EpochMs(1),
        born_host=HERE,
        store_timestamp=EpochMs(2),
        store_host=HERE,
        reconsume_times=0,
        prepared_transaction_offset=PhysicalOffset(0),
        body_crc=0,
        store_size=size,
    )


def test_the_lowest_unfinished_offset_is_committable() -> None:
    window = Window(10)
    assert window.committable == 10
    window.extend([stored(10), stored(11), stored(12)], 13)
    assert window.finish(11)
    assert window.committable == 10
    assert window.finish(10)
    assert window.committable == 12
    assert window.finish(12)
    assert window.committable == 13
    assert not window.finish(12)
    assert window.size_bytes == 0


def test_what_was_filtered_out_counts_as_finished() -> None:
    window = Window(0)
    window.extend([stored(3)], 8)
    assert window.committable == 3
    window.finish(3)
    assert window.committable == 8
    window.extend([], 20)
    assert window.committable == 20


def test_a_message_that_comes_twice_is_held_once() -> None:
    window = Window(0)
    assert len(window.extend([stored(0), stored(1)], 2)) == 2
    assert window.extend([stored(1), stored(2)], 3) == [stored(2)]


def test_each_limit_stops_pulling_and_says_so() -> None:
    window = Window(0)
    window.extend([stored(n) for n in range(10)], 10)
    assert window.fullness(WindowLimits()) is None
    assert "10 messages" in str(window.fullness(WindowLimits(messages=10)))
    assert "1000 bytes" in str(window.fullness(WindowLimits(size_bytes=1000)))
    assert "offset 0" in str(window.fullness(WindowLimits(span=9)))
    assert window.fullness(WindowLimits(span=9), ordered=True) is None


@given(st.permutations(range(12)))
def test_in_any_order_nothing_unfinished_is_ever_skipped(order: list[int]) -> None:
    window = Window(0)
    window.extend([stored(n) for n in range(12)], 12)
    unfinished = set(range(12))
    for offset in order:
        window.finish(offset)
        unfinished.discard(offset)
        assert window.committable == min(unfinished, default=12)


def test_a_body_that_was_stored_compressed_counts_with_what_it_takes_here() -> None:
    window = Window(0)
    inflated = replace(stored(0, size=100), body=bytes(5000))
    window.extend([inflated, stored(1, size=100)], 2)
    assert window.size_bytes == 5100
    assert window.fullness(WindowLimits(size_bytes=5000)) is not None
    window.finish(0)
    assert window.size_bytes == 100
