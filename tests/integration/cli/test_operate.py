"""Commands that operate a cluster, on ours. `tests/interop/cli/test_operate.py` does the same on Apache's."""

import asyncio

import pytest

from firearrow import Consumer
from firearrow.cli.tables import time_text
from firearrow.client import ReceivedMessage
from firearrow.runtime.clock import SystemClock
from tests.interop.cli import operating
from tests.interop.cli.commands import Commands
from tests.interop.cli.operating import Inside

pytestmark = pytest.mark.real


@pytest.fixture
def broker(firearrow_address: str) -> tuple[Inside, str, str]:
    command = Inside(firearrow_address)
    (found,) = command.json("broker", "list")
    return command, found["broker"], found["cluster"]


def test_brokers_are_shown_and_their_settings_changed(broker: tuple[Inside, str, str]) -> None:
    command, name, cluster = broker
    operating.look_at_brokers(command, name, cluster)
    operating.change_settings(command, name)


def test_topics_and_messages(broker: tuple[Inside, str, str], firearrow_topic: str) -> None:
    command, name, _ = broker
    operating.find_messages(command, firearrow_topic)
    operating.take_and_give_permission(command, name, firearrow_topic)
    operating.change_size(command, firearrow_topic)


def test_groups(broker: tuple[Inside, str, str], firearrow_topic: str, firearrow_group: str) -> None:
    operating.change_groups(broker[0], firearrow_topic, firearrow_group)


def test_the_queues_of_a_member_are_shown_before_it_has_consumed(
    firearrow_address: str, firearrow_topic: str, firearrow_group: str
) -> None:
    async def look() -> list[dict[str, object]]:
        command, clock = Commands(firearrow_address), SystemClock()
        begun_ms = clock.now_ms()
        async with Consumer(firearrow_address, group=firearrow_group, topics=firearrow_topic) as consumer:
            while True:
                found = await asyncio.to_thread(command.json, "group", "describe", firearrow_group)
                held = [each for each in found["queues"] if each["topic"] == firearrow_topic]
                if len(held) == 4:  # every queue of the topic
                    assert {each["member"] for each in held} == {consumer.client_id}
                    assert {begun_ms <= each["memberSince"] <= clock.now_ms() for each in held} == {True}
                    return held

    held = asyncio.run(asyncio.wait_for(look(), operating.SECONDS))
    assert {each["lag"] for each in held} <= {None, 0}


def test_a_member_that_fails_to_consume_a_message_again_is_a_failure(
    firearrow_address: str, firearrow_topic: str, firearrow_group: str
) -> None:
    consumed = asyncio.Event()

    async def consume_once(_message: ReceivedMessage) -> None:
        if consumed.is_set():
            raise ValueError("not today")
        consumed.set()

    async def resend() -> str:
        command = Commands(firearrow_address)
        (sent,) = await asyncio.to_thread(command.json_lines, "produce", firearrow_topic, "-m", "again")
        words = ("message", "resend", sent["offsetMessageId"], "--group", firearrow_group)
        async with Consumer(
            firearrow_address, group=firearrow_group, topics=firearrow_topic, start="first"
        ) as consumer:
            running = asyncio.create_task(consumer.run(consume_once))
            await consumed.wait()
            said = await asyncio.to_thread(command.fails, *words)
            consumer.stop()
            await running
            return said

    said = asyncio.run(asyncio.wait_for(resend(), operating.SECONDS))
    assert "did not consume it: CR_THROW_EXCEPTION in" in said
    assert "ValueError: not today" in said


def test_a_time_to_look_up_to_is_the_first_that_is_left_out(firearrow_address: str, firearrow_topic: str) -> None:
    command = Inside(firearrow_address)
    command("produce", firearrow_topic, "-m", "a", "-k", "k")
    (stored,) = [each["storeTimestamp"] for each in command.json("message", "query", firearrow_topic, "k")]
    for words in (("message", "by-time", firearrow_topic, "--from", "-1h"), ("message", "query", firearrow_topic, "k")):
        assert command.json(*words, "--to", time_text(stored)) == []
        assert len(command.json(*words, "--to", time_text(stored + 1))) == 1
    assert command("consume", firearrow_topic, "--to", time_text(stored), "--format", "raw") == ""
    assert "exchange them" in command.fails("message", "by-time", firearrow_topic, "--from", "now", "--to", "-1h")
