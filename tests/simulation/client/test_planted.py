"""The small clusters find what they are for: each planted bug is caught by the question that it answers wrongly."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from firearrow.client import Consumer
from firearrow.client.consumer.queue.departure import Departures
from firearrow.client.consumer.queue.intake import Receiver
from firearrow.client.consumer.queue.outlet import Outlet
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.producer import linger
from firearrow.client.producer.delivery import Delivery
from firearrow.client.producer.linger import Linger
from firearrow.client.producer.retry_policy import Attempts
from firearrow.client.routes import RouteTable
from firearrow.errors import ClientClosed, FireArrowError
from firearrow.record.decode import decode_all
from tests.simulation.client import (
    test_addresses,
    test_cancellation,
    test_closing,
    test_neighbours,
    test_ordering,
    test_pausing,
    test_poison,
    test_quotas,
    test_rebalance_listener,
    test_restarts,
)

Plant = Callable[[pytest.MonkeyPatch], None]
Question = Callable[[pytest.MonkeyPatch], None]


def fails_the_pull_for_one_bad_body(patch: pytest.MonkeyPatch) -> None:
    def strict(body: bytes, *, max_body_bytes: int, keep_bad_bodies: bool) -> object:
        return decode_all(body, max_body_bytes=max_body_bytes, keep_bad_bodies=not keep_bad_bodies)

    patch.setattr("firearrow.client.consumer.broker_queries.decode_all", strict)


def believes_the_first_route(patch: pytest.MonkeyPatch) -> None:
    def oldest_last(self: RouteTable) -> None:
        self._brokers = {name: members for each in reversed(self._heard.values()) for name, members in each.items()}

    patch.setattr(RouteTable, "_merge", oldest_last)


def lets_the_lock_of_a_departing_queue_lapse(patch: pytest.MonkeyPatch) -> None:
    renew = Receiver.renew_locks

    async def forgetful(self: Receiver) -> None:
        departing, self._departures.flows = self._departures.flows, {}
        try:
            await renew(self)
        finally:
            self._departures.flows = departing

    patch.setattr(Receiver, "renew_locks", forgetful)


def forgets_handlers_at_a_reset(patch: pytest.MonkeyPatch) -> None:
    restart = OwnedQueue.restart

    def forgetful(self: OwnedQueue, offset: int, now: float) -> None:
        self.handed.clear()
        restart(self, offset, now)

    patch.setattr(OwnedQueue, "restart", forgetful)


def sends_back_in_the_task_of_the_handler(patch: pytest.MonkeyPatch) -> None:
    async def unshielded(given: asyncio.Task[Any]) -> Any:
        try:
            return await asyncio.wait_for(given, None)
        except asyncio.CancelledError:
            given.cancel()
            raise

    patch.setattr("firearrow.client.consumer.queue.settlement.asyncio.shield", unshielded)


def gives_up_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempts, "pause_s", lambda *_: 0.0)
    patch.setattr("firearrow.client.producer.retry_policy.is_free", lambda *_, **__: False)


def fails_a_batch_for_one_of_its_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(linger, "FAULTED", frozenset())


def hands_out_what_was_pulled_before_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outlet, "withdraw", lambda *_: None)


def tells_of_a_departure_while_handlers_run(patch: pytest.MonkeyPatch) -> None:
    async def at_once(*_: object) -> None:
        return

    patch.setattr(Departures, "_wait_for_handlers", at_once)


def commits_behind_another_member(patch: pytest.MonkeyPatch) -> None:
    async def always(self: Departures, flow: OwnedQueue) -> None:
        self._reader.note(flow)
        await self._reader.offsets.persist()

    patch.setattr(Departures, "_commit_unless_behind", always)


def keeps_no_limit_of_sends(patch: pytest.MonkeyPatch) -> None:
    """G5 of the third review."""
    patch.setattr(Delivery, "open", lambda _self: None)


def cancels_batches_that_are_on_the_wire(patch: pytest.MonkeyPatch) -> None:
    """G7 of the third review."""

    close = Linger.close

    async def impatient(self: Linger) -> None:
        try:
            await close(self)
        except asyncio.CancelledError:
            for future in list(self._leaving):
                future.set_exception(ClientClosed("the producer was closed before the message was sent"))
            raise

    patch.setattr(Linger, "close", impatient)


def sends_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    """G8 of the third review."""
    patch.setattr(linger, "_drop_cancelled", lambda _batch: None)


def leaves_stuck_handlers_alone(patch: pytest.MonkeyPatch) -> None:
    """G8 of the third review."""
    patch.setattr(Consumer, "close", lambda self: self._member.close())


def asks_again_at_once_when_told_to_wait(patch: pytest.MonkeyPatch) -> None:
    for module in ("producer.retry_policy", "consumer.broker_queries"):
        patch.setattr(f"firearrow.client.{module}.told_pause_s", lambda *_: 0.001)


def counts_no_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("firearrow.quotas.throttle._charge", lambda _costs: lambda _size: None)


def counts_all_topics_together(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("firearrow.quotas.throttle._topic", lambda *_: "slow")


PLANTS: list[tuple[Plant, Question]] = [
    (
        hands_out_what_was_pulled_before_a_pause,
        lambda _: test_pausing.test_what_was_pulled_waits_and_offsets_stay(ordered=False),
    ),
    (
        tells_of_a_departure_while_handlers_run,
        lambda _: test_rebalance_listener.test_it_hears_before_the_first_message_and_after_the_last(
            ordered=False, auto_commit=True
        ),
    ),
    (
        commits_behind_another_member,
        lambda _: test_rebalance_listener.test_what_handlers_finish_late_takes_no_commit_of_another_member_back(),
    ),
    (
        asks_again_at_once_when_told_to_wait,
        lambda _: test_quotas.test_a_producer_waits_as_told_and_another_topic_is_not_slowed(in_flight=1),
    ),
    (
        asks_again_at_once_when_told_to_wait,
        lambda _: test_quotas.test_a_consumer_waits_as_told_and_gets_everything("push"),
    ),
    (counts_no_answers, lambda _: test_quotas.test_a_consumer_waits_as_told_and_gets_everything("pull")),
    (
        counts_all_topics_together,
        lambda _: test_quotas.test_a_producer_waits_as_told_and_another_topic_is_not_slowed(in_flight=1),
    ),
    (gives_up_at_once, lambda _: test_restarts.test_name_servers_that_cannot_be_reached_for_a_while_cost_no_send()),
    (fails_the_pull_for_one_bad_body, lambda _: test_poison.test_it_is_in_no_batch_with_others()),
    (believes_the_first_route, lambda _: test_addresses.test_a_topic_that_was_deleted_leaves_no_address_behind()),
    (
        lets_the_lock_of_a_departing_queue_lapse,
        lambda _: test_ordering.test_a_queue_that_changes_hands_waits_for_its_handler(),
    ),
    (forgets_handlers_at_a_reset, lambda _: test_ordering.test_a_queue_that_is_reset_waits_for_its_handler()),
    (
        sends_back_in_the_task_of_the_handler,
        lambda patch: test_cancellation.test_a_cancellation_while_messages_are_sent_back_orphans_none(
            is_batch=False, is_taken=True, monkeypatch=patch
        ),
    ),
    (
        fails_a_batch_for_one_of_its_messages,
        lambda _: test_neighbours.test_what_a_broker_finds_fault_with_is_told_to_its_sender_alone(),
    ),
    (
        keeps_no_limit_of_sends,
        lambda _: test_closing.test_no_more_requests_than_max_sends_are_in_flight(test_closing.by_linger),
    ),
    (
        keeps_no_limit_of_sends,
        lambda _: test_closing.test_no_more_requests_than_max_sends_are_in_flight(test_closing.by_batch),
    ),
    (keeps_no_limit_of_sends, test_closing.test_one_way_sends_wait_for_their_turn_too),
    (
        cancels_batches_that_are_on_the_wire,
        lambda _: test_closing.test_an_interrupted_close_says_of_what_is_on_the_wire_that_it_may_be_stored(),
    ),
    (
        sends_what_was_cancelled,
        lambda _: test_closing.test_a_send_that_is_cancelled_before_its_batch_leaves_is_not_stored(),
    ),
    (
        leaves_stuck_handlers_alone,
        lambda _: test_closing.test_a_consumer_that_is_closed_over_a_stuck_handler_ends_its_run(is_batch=False),
    ),
]


@pytest.mark.parametrize(("plant", "question"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_is_caught(plant: Plant, question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, FireArrowError)):
        question(monkeypatch)
