"""Faults of one part of a broker, put back one at a time and hunted by the test of that part.

What costs too much at size, or needs a log of Apache's with a clock that went back, shows in no random cluster. No seed
is drawn here: one run sees the fault or does not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from firearrow.access.audit_lines import ChainEnd
from firearrow.access.audit_log import AuditLog
from firearrow.broker import lanes, registration
from firearrow.broker.dedup import row_windows
from firearrow.broker.dedup.window import Windows
from firearrow.broker.delivery.notices import Notices
from firearrow.broker.delivery.schedule import DueDelivery
from firearrow.broker.gate.waiting_answers import Acks
from firearrow.broker.handlers.group import consumer, reset
from firearrow.broker.handlers.group.offset_bounds import OffsetBounds
from firearrow.broker.handlers.group.reset import ResetHandlers
from firearrow.broker.lanes import Lane, Lanes, WaitKind
from firearrow.broker.registration import Registration
from firearrow.broker.statistics.counters import BrokerStats, _Family
from firearrow.broker.statistics.history import CountHistory
from firearrow.broker.statistics.meters import Meter, TrafficCounts
from firearrow.broker.statistics.watch import Watch
from firearrow.broker.transaction import side_by_side
from firearrow.errors import BadFrame
from firearrow.protocol import header_json
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.group.heartbeat import NotifyConsumerIdsChanged
from firearrow.protocol.requests.group.reset import CloneGroupOffset
from firearrow.remoting.handlers import Call, Later, Peer
from tests.unit.access import test_audit_log
from tests.unit.broker import (
    test_acknowledging,
    test_bounds,
    test_due,
    test_gate,
    test_kept_answers,
    test_lanes,
    test_membership,
    test_next_lives,
    test_questions,
    test_registration,
    test_rows,
    test_stats,
    test_transactions,
    test_watch,
)
from tests.unit.protocol import test_header_json

PutBack = Callable[[pytest.MonkeyPatch], None]
FEW: Final = 50
"""Topics that are measured instead of many: the fault is no small one."""


def delivers_whatever_is_due(patch: pytest.MonkeyPatch) -> None:
    """A20: everything that is due is delivered, and as many are counted from the first on."""

    def due_anywhere(waiting: list[DueDelivery], now_ms: int) -> list[DueDelivery]:
        return [one for one in waiting if one.due_ms <= now_ms]

    patch.setattr(test_due, "due_first", due_anywhere)


def registers_in_one_frame(patch: pytest.MonkeyPatch) -> None:
    """D1: every topic goes into one registration; a frame holds as many topics as a part does otherwise."""
    register_part = Registration._register_part

    async def framed(self: Registration, address: Any, topics: dict[str, Any], version: Any) -> None:
        if len(topics) > registration.PART_TOPICS:
            raise BadFrame(f"a body of {len(topics)} topics does not fit into a frame")
        await register_part(self, address, topics, version)

    patch.setattr(registration, "parts_of", lambda _topics: 1)
    patch.setattr(registration, "part_of", lambda topics, _number: topics)
    patch.setattr(Registration, "_register_part", framed)


def tells_everybody_of_everybody(patch: pytest.MonkeyPatch) -> None:
    """D3: every comer and every leaver has all others told in the same turn."""

    def add(self: Any, name: str) -> None:
        group = self._clients.group(name)
        for connection in list(group.members) if group else ():
            cast("Peer", connection).push(NotifyConsumerIdsChanged(consumer_group=name))

    patch.setattr(Notices, "add", add)


def samples_all_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    """D4: the counters of all topics are noted in one turn of the loop."""
    sample = CountHistory.sample

    def at_once(self: CountHistory, now_ms: int) -> list[None]:
        list(sample(self, now_ms))
        return [None]

    patch.setattr(CountHistory, "sample", at_once)


def keeps_a_meter_for_every_counter(patch: pytest.MonkeyPatch) -> None:
    """D4: messages and bytes of every topic have a history of their own."""
    of, sample = _Family.of, BrokerStats.sample
    meters: dict[int, tuple[TrafficCounts, Meter, Meter]] = {}

    def metered(self: _Family, key: str) -> TrafficCounts:
        counts = of(self, key)
        meters.setdefault(id(counts), (counts, Meter(0), Meter(0)))
        return counts

    async def sampled(self: BrokerStats, now_ms: int) -> None:
        await sample(self, now_ms)
        for counts, messages, size in meters.values():
            messages.total, size.total = counts.messages, counts.size
            messages.sample(now_ms)
            size.sample(now_ms)

    patch.setattr(_Family, "of", metered)
    patch.setattr(BrokerStats, "sample", sampled)


def forgets_no_counter(patch: pytest.MonkeyPatch) -> None:
    """A18: the numbers of a deleted topic are made again from counters that stayed."""
    patch.setattr(_Family, "forget", lambda _self, _topics: iter(()))


def shows_constants(patch: pytest.MonkeyPatch) -> None:
    """D9: refusals and failures are counted, and the status says 0."""
    table = Watch.table
    patch.setattr(Watch, "table", lambda self: dict.fromkeys(table(self), "0"))


def begins_with_empty_windows(patch: pytest.MonkeyPatch) -> None:
    """Rows 1: a window holds the rows that this process stored, and none from before its start."""

    async def nothing(*_: Any) -> AsyncIterator[list[Any]]:
        return
        yield []

    patch.setattr(row_windows, "rows_at_end", nothing)


def remembers_rows_that_were_taken_back(patch: pytest.MonkeyPatch) -> None:
    """Rows 2: a row whose write failed stays in the window, so its repeat is answered and stored nowhere."""
    patch.setattr(Windows, "take_back", lambda *_: None)


@dataclass(frozen=True)
class PartPlant:
    """A fault, and the test that sees it."""

    finding: str
    what: str
    put_back: PutBack
    test: Callable[[], None]
    rule: str
    """The text of its complaint, as a regular expression."""

    def hunt(self, seed: int) -> None:
        """Raise what is wrong."""
        del seed
        self.test()


def _in_parts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_registration.test_a_table_that_no_frame_holds_is_registered_in_parts_and_stays_known(patch)


def _without_pauses(test: Callable[[], None]) -> Callable[[], None]:
    def hunt() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("firearrow.broker.statistics.counters.PAUSE_S", 0)
            patch.setattr(test_stats, "MEASURED", FEW)
            test()

    return hunt


def keeps_late_answers_in_line(patch: pytest.MonkeyPatch) -> None:
    """F6: late answers stay in the line, and every deadline walks over all of them."""

    def expire(self: Acks) -> None:
        self._timer = None
        loop, waiting = asyncio.get_running_loop(), self._waiting
        for _, later, answer, deadline in waiting:
            if deadline <= loop.time():
                later.answer(replace(answer, code=int(ResponseCode.FLUSH_DISK_TIMEOUT)))
        due = [one[3] for one in waiting if one[3] > loop.time()]
        if due:
            self._timer = loop.call_at(min(due), self._expire)

    patch.setattr(Acks, "_expire", expire)


def begins_the_chain_anew(patch: pytest.MonkeyPatch) -> None:
    """A start after a kill at the beginning of an audit file finds no line there, and begins a chain of its own."""

    async def leave_it(self: AuditLog, number: int) -> None:
        self._number, self._chain = number, ChainEnd()

    patch.setattr(AuditLog, "_remove_unbegun", leave_it)
    patch.setattr(AuditLog, "_continue", lambda _self, _number, _data: 0)


def _after_a_kill() -> None:
    test_audit_log.test_the_chain_goes_on_after_a_kill_at_the_beginning_of_a_file(3, b"")


def looks_up_one_after_the_other(patch: pytest.MonkeyPatch) -> None:
    """Every half message waits until the one before it is read."""
    patch.setattr(side_by_side, "AT_ONCE", 1)


def _old_half_messages() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_transactions.test_old_half_messages_are_looked_up_side_by_side("question", patch)


def counts_no_refusal(patch: pytest.MonkeyPatch) -> None:
    """A lane refuses a request, and its metric stays."""
    patch.setattr(Lane, "refusal", lambda self, peer, owner: self._refusal(peer, self._line.owner_of(peer, owner)))


def questions_without_bound(patch: pytest.MonkeyPatch) -> None:
    """As many questions to clients wait as anybody asks."""
    patch.setattr(lanes, "_MOST_OF_CONNECTION", {})
    patch.setattr(lanes, "_MOST_OF_OWNER", {})


def keeps_bodies(patch: pytest.MonkeyPatch) -> None:
    """A request that waits for a place keeps its body, which nobody needs."""
    patch.setattr(Later, "let_body_go", lambda _self: None)


def _of_a_lookup() -> None:
    test_lanes.test_a_body_that_no_job_needs_counts_no_more(WaitKind.INDEX)


def asks_one_member_after_the_other(patch: pytest.MonkeyPatch) -> None:
    """A silent member of a group keeps the others from being asked, for all its time."""
    patch.setattr(consumer, "ASKED_AT_ONCE", 1)


def asks_for_the_gone(patch: pytest.MonkeyPatch) -> None:
    """Questions to clients go on when the connection has ended that asked them."""
    patch.setattr(Lanes, "_end_questions", lambda _self, _peer: None)


def gives_no_way(patch: pytest.MonkeyPatch) -> None:
    """A job keeps its place from its first piece to its last."""
    patch.setattr(Lanes, "give_way", lambda _self: asyncio.sleep(0))


def clones_before_it_is_admitted(patch: pytest.MonkeyPatch) -> None:
    """The offsets of a group are cloned although the request is refused behind that."""
    clone = ResetHandlers.clone

    def at_once(self: ResetHandlers, request: CloneGroupOffset, call: Call) -> Any:
        self._offsets.clone(request.src_group, request.dest_group, request.topic or "")
        return clone(self, request, call)

    patch.setattr(ResetHandlers, "clone", at_once)


def clones_nothing_durably(patch: pytest.MonkeyPatch) -> None:
    """A clone is answered while its file is still to be written."""

    async def leave_it(_changed: object) -> None:
        pass

    patch.setattr(reset, "keep", leave_it)


def checks_room_topic_by_topic(patch: pytest.MonkeyPatch) -> None:
    """The room for the offsets in a topic is asked for when those in the topics before it are cloned."""
    patch.setattr(OffsetBounds, "check_room_of_all", lambda *_: None)


def keeps_nothing_of_a_refused_change(patch: pytest.MonkeyPatch) -> None:
    """A change that is refused halfway is written to no file."""

    async def carry_out(_self: ResetHandlers, steps: Iterator[int], count: int, what: str) -> None:
        done = 0
        try:
            for number in steps:
                done += number
        except Refused as refusal:
            raise Refused(refusal.code, f"{refusal.remark}; {done} of {count} {what} are done") from refusal

    patch.setattr(ResetHandlers, "_carry_out", carry_out)


def moves_in_any_life(patch: pytest.MonkeyPatch) -> None:
    """A group is moved on after its topic was deleted and made again."""

    def moves(self: ResetHandlers, request: Any, _life: object, places: dict[int, int]) -> Iterator[int]:
        for queue_id, offset in places.items():
            self._offsets.move(request.group, request.topic, queue_id, offset)
            yield 1

    patch.setattr(ResetHandlers, "_moves", moves)


def _delete_between_two_steps() -> None:
    test_next_lives.delete_between_two_steps("topic")


def _refuse_a_clone_halfway() -> None:
    test_kept_answers.refuse_halfway("clone")


def counts_members_behind_escapes_of_quotes_alone(patch: pytest.MonkeyPatch) -> None:
    """An escaped letter at the end of a name leaves a backslash before the quote that ends the name."""

    def count(header: bytes) -> int:
        signs = header.replace(b"\\\\", b"").translate(None, bytes(set(range(256)) - set(b'"\\:,{}')))
        return signs.count(b'":') - signs.count(b'\\":')

    patch.setattr(header_json, "_count_quotes_before_colons", count)


def _count_escaped_names() -> None:
    with pytest.MonkeyPatch.context() as patch:
        form = test_header_json.LARGE["escaped letters"]
        test_header_json.test_the_fields_of_a_large_header_are_counted_without_reading_them(form, "nested", patch)


PART_PLANTS: Final = (
    PartPlant(
        "audit", "an audit chain begins anew after a kill", begins_the_chain_anew, _after_a_kill,
        "found.faults",
    ),
    PartPlant(
        "lanes", "half messages are read one after the other", looks_up_one_after_the_other,
        _old_half_messages, "half messages",
    ),
    PartPlant(
        "lanes", "a refusal by a lane is not counted", counts_no_refusal,
        test_lanes.test_a_connection_with_too_many_jobs_is_refused, "lane.refused == 2",
    ),
    PartPlant(
        "lanes", "questions to clients wait without bound", questions_without_bound,
        test_questions.send_beside_questions, "from being read",
    ),
    PartPlant(
        "lanes", "a request that waits keeps a body that nobody needs", keeps_bodies, _of_a_lookup, "nobody needs",
    ),
    PartPlant(
        "lanes", "members of a group are asked one after the other", asks_one_member_after_the_other,
        test_questions.ask_beside_silent_members, "wait for each other",
    ),
    PartPlant(
        "lanes", "questions of an ended connection keep their places", asks_for_the_gone,
        test_questions.leave_behind_questions, "keep their places",
    ),
    PartPlant(
        "lanes", "a question about a large group keeps its place", gives_no_way,
        test_questions.ask_a_large_group, "does not give way",
    ),
    PartPlant(
        "clone", "a refused clone has changed offsets", clones_before_it_is_admitted,
        test_gate.test_offsets_are_cloned_only_when_their_lane_takes_the_request, "has changed offsets",
    ),
    PartPlant(
        "clone", "a clone is answered before it is durable", clones_nothing_durably,
        test_kept_answers.test_offsets_that_are_cloned_are_answered_for_when_they_are_durable, "",
    ),
    PartPlant(
        "clone", "a refused clone has copied some topics", checks_room_topic_by_topic,
        test_bounds.clone_more_topics_than_there_is_room_for, "in some topics",
    ),
    PartPlant(
        "clone", "a clone that is refused halfway is kept in memory alone", keeps_nothing_of_a_refused_change,
        _refuse_a_clone_halfway, "before the refusal is lost",
    ),
    PartPlant(
        "reset", "a group is moved on in the next life of its topic", moves_in_any_life, _delete_between_two_steps,
        "DID NOT RAISE",
    ),
    PartPlant(
        "header", "the fields of a large header hide behind escapes", counts_members_behind_escapes_of_quotes_alone,
        _count_escaped_names, "",
    ),
    PartPlant(
        "F6", "late answers stay in the line of a hung sync", keeps_late_answers_in_line,
        test_acknowledging.wait_for_a_hung_sync, "late answers",
    ),
    PartPlant(
        "A18", "numbers of a deleted topic come back", forgets_no_counter,
        _without_pauses(test_stats.test_a_forgotten_topic_stays_forgotten), "is None",
    ),
    PartPlant(
        "A20", "of delayed messages that are no prefix one is lost, another repeated", delivers_whatever_is_due,
        test_due.test_what_is_due_behind_one_that_is_not_waits_for_it, "delivered",
    ),
    PartPlant(
        "D1", "a table that no frame holds is registered nowhere", registers_in_one_frame, _in_parts, "refused",
    ),
    PartPlant(
        "D3", "everybody is told of everybody", tells_everybody_of_everybody,
        test_membership.test_many_who_come_and_leave_together_are_told_together, "together",
    ),
    PartPlant(
        "D4 time", "all counters are sampled in one turn", samples_all_in_one_turn,
        test_stats.test_a_moment_is_taken_in_steps, "== 3",
    ),
    PartPlant(
        "D4 memory", "two histories for every counter", keeps_a_meter_for_every_counter,
        _without_pauses(test_stats.test_fifty_thousand_topics_that_groups_read_fit_their_budget), "< BUDGET",
    ),
    PartPlant(
        "D9", "the status of a broker shows constants", shows_constants,
        test_watch.test_status_says_what_failed, "putMessageFailedTimes",
    ),
    PartPlant(
        "R1", "a repeat after a crash is stored again", begins_with_empty_windows,
        test_rows.window_rebuilt_after_a_crash, "602 rows are stored, of 301",
    ),
    PartPlant(
        "R2", "a row whose write failed is never stored", remembers_rows_that_were_taken_back,
        test_rows.row_stored_after_a_failed_write, "refused for ever",
    ),
)  # fmt: skip
