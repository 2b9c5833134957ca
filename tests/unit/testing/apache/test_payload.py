from collections.abc import Sequence

import pytest

from judges.payload import Payload
from judges.reports import Delivery, ReceiveReport, SendReport


def sent(count: int, tags: Sequence[str] = ()) -> SendReport:
    return SendReport(
        payload=Payload("p"),
        indexes=tuple(range(count)),
        failed=(),
        statuses={"SEND_OK": count},
        queues={},
        errors=(),
        tags=tuple(tags),
        elapsed_ms=1,
    )


def delivery(report: SendReport, index: int, *, failed: bool = False, digest: str | None = None) -> Delivery:
    return Delivery(
        digest=digest or report.payload.digest(index),
        size=1,
        queue=0,
        offset=index,
        times=0,
        born_ms=0,
        stored_ms=0,
        seen_ms=5,
        failed=failed,
        tag=report.tag(index),
        keys=report.payload.key(index),
    )


def received(report: SendReport, indexes: Sequence[int]) -> ReceiveReport:
    return ReceiveReport(tuple(delivery(report, index) for index in indexes))


def test_body_follows_the_rule() -> None:
    assert Payload("p").body(7) == b"p-7|"
    assert Payload("p", 8).body(253) == b"p-253|" + bytes([254, 255])
    assert Payload("p", 9).body(253) == b"p-253|" + bytes([254, 255, 1])
    body = Payload("p", 1000).body(300)
    assert len(body) == 1000
    assert 0 not in body
    assert all(byte == 1 + (300 + j) % 255 for j, byte in enumerate(body[len(b"p-300|") :]))


def test_exactly_what_was_sent_passes_in_any_order() -> None:
    report = sent(3, tags=["A", "B"])
    arrived = received(report, [2, 0, 1])
    arrived.assert_exactly(report)
    arrived.assert_tags_and_keys(report)
    assert arrived.digest == report.digest


@pytest.mark.parametrize(
    ("indexes", "complaint"), [([0, 1], "1 missing"), ([0, 1, 2, 2], "more than once"), ([0, 1, 2, 9], "foreign")]
)
def test_anything_else_fails(indexes: list[int], complaint: str) -> None:
    report = sent(3)
    with pytest.raises(AssertionError, match=complaint):
        received(report, indexes).assert_exactly(report)


def test_an_altered_body_fails() -> None:
    report = sent(1)
    with pytest.raises(AssertionError, match="altered"):
        ReceiveReport((delivery(report, 0, digest="0" * 64),)).assert_exactly(report)


def test_refused_deliveries_do_not_count_as_messages() -> None:
    report = sent(1)
    arrived = ReceiveReport((delivery(report, 0, failed=True), delivery(report, 0)))
    arrived.assert_exactly(report)
    assert len(arrived.deliveries) == 2


def test_order_is_checked_by_shard() -> None:
    report = sent(4)
    received(report, [1, 0, 3, 2]).assert_ordered(report, 2)
    with pytest.raises(AssertionError, match="shard 0: message 0 came after 2"):
        received(report, [2, 0, 1, 3]).assert_ordered(report, 2)
