"""The report of the campaign of real failovers: gaps as seen from outside, order of places, the table."""

import time
from types import SimpleNamespace
from typing import cast

import pytest

from campaigns.failover.clients import Sender, order_breaks
from campaigns.failover.faults import FAULTS, ON_LOOPBACK, possible
from campaigns.failover.network import Loopback
from campaigns.failover.table import story, table
from judges.payload import Payload
from judges.producers import Place, Produced, Producing


def sender_seen_at(moments: list[float], monkeypatch: pytest.MonkeyPatch) -> Sender:
    """A sender that got an acknowledgement at every moment."""
    count = iter(range(1, len(moments) + 1))
    progress = SimpleNamespace(
        judge=SimpleNamespace(client="go"), progress=lambda: SimpleNamespace(acknowledged=next(count))
    )
    sender = Sender(cast("Producing", progress))
    for moment in moments:
        monkeypatch.setattr(time, "monotonic", lambda moment=moment: moment)
        sender.look(moment)
    return sender


def test_a_gap_counts_from_the_fault_and_to_its_end_behind_the_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = sender_seen_at([0.0, 1.0, 2.0, 9.0, 10.0, 30.0], monkeypatch)
    assert sender.gap_s(2.5, 9.5) == 6.5
    assert sender.gap_s(2.5, 10.5) == 20.0
    assert sender.gap_s(0.0, 1.5) == 1.0


def test_a_gap_that_did_not_end_is_none_and_not_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = sender_seen_at([0.0, 1.0, 3.0], monkeypatch)
    assert sender.gap_s(0.5, 90.0) is None
    assert sender_seen_at([], monkeypatch).gap_s(0.5, 90.0) is None


def test_acknowledged_places_of_a_queue_are_in_the_order_of_sending() -> None:
    places = [(1, Place("a", 0, 5)), (2, Place("a", 1, 0)), (3, Place("a", 0, 6))]
    produced = Produced(Payload("p"), tuple(places), (), ())
    assert order_breaks(produced) == []
    swapped = Produced(Payload("p"), (places[2], places[1], places[0]), (), ())
    assert len(order_breaks(swapped)) == 1


def test_the_table_has_a_row_for_every_fault_of_every_system() -> None:
    entry = {
        "system": "FireArrow",
        "lost": 0,
        "out_of_order": 0,
        "load": 2.0,
        "stock_gap_s": {"java-5.5.0": 1.0, "go": 9.0},
    }
    entries = [entry | {"fault": "kill", "gap_s": gap} for gap in (1.0, 2.0, 3.0)]
    entries.append(entry | {"fault": "freeze", "gap_s": 4.0, "lost": 1, "gone": 1})
    lines = table(entries).splitlines()
    assert lines[2:] == [
        "| FireArrow | kill | 3 | 0 | 0 | 0 | 0 | 2.00 s | 2.98 s | 3 s | 1.0 s | 9.0 s | 2 |",
        "| FireArrow | freeze | 1 | 1 | 1 | 0 | 0 | 4.00 s | 4.00 s | 5 s | 1.0 s | 9.0 s | 2 |",
    ]


def test_what_did_not_come_by_itself_is_told_below_the_table() -> None:
    entry = {"system": "Apache 5.5.0", "fault": "disk-full", "lost": 0, "out_of_order": 0, "load": 2.0, "gap_s": 95.0}
    entries = [entry | {"stock_gap_s": {}, "stuck": "an election did not come within 90 s"} for _ in range(2)]
    entries[1]["gap_s"] = None
    lines = story(entries).splitlines()
    assert lines[2:] == [
        "| Apache 5.5.0 | disk-full | 2 | 0 | 0 | 0 | 2 | without end | without end | 5 s | - | - | 2 |",
        "",
        "- Apache 5.5.0, disk-full (2): an election did not come within 90 s",
    ]
    assert story([entries[0] | {"stuck": ""}]) == table([entries[0] | {"stuck": ""}])


def test_faults_that_need_links_are_refused_on_loopback() -> None:
    assert possible(divisible=True) == FAULTS
    assert possible(divisible=False) == ON_LOOPBACK
    with pytest.raises(NotImplementedError, match="root"):
        Loopback().divide("b1", ["e1"])
