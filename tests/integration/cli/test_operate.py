"""Commands that operate a cluster, on ours. `tests/interop/cli/test_operate.py` does the same on Apache's."""

import asyncio

import pytest

from firearrow import Consumer
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
        command = Commands(firearrow_address)
        async with Consumer(firearrow_address, group=firearrow_group, topics=firearrow_topic) as consumer:
            while True:
                found = await asyncio.to_thread(command.json, "group", "describe", firearrow_group)
                held = [each for each in found["queues"] if each["topic"] == firearrow_topic]
                if len(held) == 4:  # every queue of the topic
                    assert {each["member"] for each in held} == {consumer.client_id}
                    return held

    held = asyncio.run(asyncio.wait_for(look(), operating.SECONDS))
    assert {each["lag"] for each in held} <= {None, 0}
