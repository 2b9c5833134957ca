"""The audit of a run: what was acknowledged, what was given, and what must not differ."""

from dataclasses import replace

from campaigns.broker.promises import audit, unkept
from judges.payload import Payload
from judges.producers import Place, Produced
from judges.reports import Delivery, ReceiveReport

PAYLOAD = Payload("p")


def produced(*numbers: int, failed: tuple[int, ...] = ()) -> Produced:
    """Messages that lie one after the other in one queue."""
    acks = tuple((number, Place("a", 0, offset)) for offset, number in enumerate(numbers))
    return Produced(PAYLOAD, acks, failed, ())


def delivery(number: int, offset: int) -> Delivery:
    return Delivery(PAYLOAD.digest(number), 3, 0, offset, 0, 0, 0, 0, failed=False, broker="a")


def received(*places: tuple[int, int]) -> ReceiveReport:
    return ReceiveReport(tuple(delivery(number, offset) for number, offset in places))


def test_everything_given_at_least_once_is_fine() -> None:
    findings = audit([produced(0, 1, 3, failed=(2,))], [received((0, 0), (1, 1)), received((1, 1), (3, 2))])
    assert findings.broken == []
    assert (findings.acknowledged, findings.failed, findings.delivered) == (3, 1, 4)


def test_a_message_that_nobody_was_given_is_lost() -> None:
    assert len(audit([produced(0, 1)], [received((0, 0))]).lost) == 1


def test_a_message_is_unkept_once_however_many_consumers_lack_it_or_find_another_in_its_place() -> None:
    sent = [produced(0, 1, 2)]
    assert unkept(sent, [received((0, 0), (1, 1), (2, 2))] * 2) == set()
    assert unkept(sent, [received((0, 0), (2, 1)), received((0, 0), (1, 5), (2, 2))]) == {(0, 1)}
    assert unkept(sent, [received((0, 0), (1, 1), (2, 2), (9, 2))]) == set()
    assert unkept(sent, [received((0, 0), (1, 1), (9, 2), (2, 3))]) == {(0, 2)}


def test_an_offset_that_nobody_was_given_is_skipped() -> None:
    findings = audit([produced(0, 1, 2)], [received((0, 0), (2, 2))])
    assert (len(findings.skipped), len(findings.lost)) == (1, 1)


def test_a_place_holds_one_message_and_the_one_it_was_acknowledged_for() -> None:
    findings = audit([produced(0, 1)], [received((0, 0), (2, 1)), received((1, 1))])
    assert len(findings.rewritten) == 1
    assert len(findings.misplaced) == 1


def test_a_producer_s_messages_lie_in_the_order_sent() -> None:
    swapped = replace(produced(0, 1), acks=((0, Place("a", 0, 1)), (1, Place("a", 0, 0))))
    assert len(audit([swapped], [received((1, 0), (0, 1))]).disordered) == 1


def test_a_message_that_was_sent_twice_is_in_order() -> None:
    assert audit([produced(0, 0, 1)], [received((0, 0), (0, 1), (1, 2))]).disordered == []
