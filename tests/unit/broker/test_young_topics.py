"""Messages for topics that are not durable yet: what is acknowledged is stored, what is refused is nowhere."""

import asyncio
import errno
from functools import partial
from typing import Any

import pytest

from firearrow.broker.handlers.message.send_checked import CheckedSends
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model import Message
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, GetTopicConfig
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack, SendBatchMessage
from firearrow.record.batch import encode_batch
from firearrow.remoting.handlers import Answer
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import Client, Simulated, a_send, settings_of, simulate

FIRST = b"first"


async def outcome_of_first(client: Client, *, batch: bool) -> bool:
    """Whether the first message of a new topic is acknowledged."""
    try:
        if batch:
            await client.ask(
                a_send("new", kind=SendBatchMessage, batch=True), encode_batch([Message.of("new", FIRST)] * 2)
            )
        else:
            await client.send("new", FIRST)
    except RequestRefused:
        return False
    return True


async def send_until_taken(client: Client, topic: str, body: bytes) -> None:
    for _ in range(50):
        try:
            await client.send(topic, body)
        except RequestRefused:
            await asyncio.sleep(0.2)
        else:
            return
    raise AssertionError(f"{topic} is not written again")


def answers_that_are_not_true(operation: str, *, sync: bool, batch: bool) -> list[str]:
    """Let one call after another find no space, of the log, of the topics, of either's directory."""

    async def scenario(_world: World, broker: Simulated, client: Client) -> tuple[bool, bool]:
        await send_until_taken(client, "old", b"x")
        broker.node.image.fail(operation, number=errno.ENOSPC, after=after)
        first = asyncio.create_task(outcome_of_first(client, batch=batch))
        await asyncio.sleep(0.2)
        for _ in range(3):
            await send_until_taken(client, "old", b"y" * 400)
        acknowledged = await first
        broker.node.image.mend()
        await send_until_taken(client, "new", b"second")
        stored = [message.body for message in await client.stored("new")]
        assert b"second" in stored
        return acknowledged, FIRST in stored

    untrue = []
    for after in range(8):
        acknowledged, is_stored = simulate(scenario, settings_of(sync=sync), seed=after)
        if acknowledged != is_stored:
            untrue.append(f"{operation} {after}: acknowledged {acknowledged}, stored {is_stored}")
    return untrue


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("operation", ["write", "create", "rename", "open"])
def test_whichever_call_fails_the_answer_is_true(operation: str, *, sync: bool, batch: bool) -> None:
    assert not answers_that_are_not_true(operation, sync=sync, batch=batch)


def joins_the_line_when_the_topic_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: the message is appended at once, its answer waits for the topic and only then for the log."""

    def append_at_once(self: Any, topic: str, _call: Any, again: Any) -> Any:
        young = self._topics.young.pop(topic)
        self._gate.placed = partial(join_late, self)
        try:
            return again()
        finally:
            del self._gate.placed
            self._topics.young[topic] = young

    def join_late(self: Any, call: Any, end: int, answer: Answer, *counted: Any) -> Any:
        later, waits = call.later(), counted[-1]
        acks = self._gate.kept if waits else self._gate.written

        def saved(error: FireArrowError | None) -> None:
            if error is None:
                acks.add(end, later, answer)
            else:
                later.answer(self._replies.not_stored(error))

        self._topics.file.changed(saved)
        return later

    patch.setattr(CheckedSends, "_wait_for_topic", append_at_once)


@pytest.mark.parametrize("sync", [False, True])
def test_an_answer_that_joins_late_is_caught(monkeypatch: pytest.MonkeyPatch, *, sync: bool) -> None:
    joins_the_line_when_the_topic_is_durable(monkeypatch)
    untrue = answers_that_are_not_true("write", sync=sync, batch=False)
    assert any("acknowledged True, stored False" in one for one in untrue)
    assert any("acknowledged False, stored True" in one for one in untrue)


def test_messages_that_wait_for_a_topic_are_stored_in_their_order() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> list[bytes]:
        bodies = [b"%d" % number for number in range(20)]
        sends = []
        for body in bodies:
            sends.append(asyncio.create_task(client.send("new", body)))
            await asyncio.sleep(0.0005)
        offsets = [(await send).answer.queue_offset for send in sends]
        assert offsets == list(range(20))
        return [message.body for message in await client.stored("new")]

    assert simulate(scenario) == [b"%d" % number for number in range(20)]


def test_a_topic_that_is_deleted_while_messages_wait_for_it_is_made_anew() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> list[bytes]:
        await send_until_taken(client, "old", b"x")
        broker.node.image.fail("write", number=errno.ENOSPC)
        with pytest.raises(RequestRefused, match="free some space"):
            await client.send("new", FIRST)
        waiting = asyncio.create_task(client.send("new", b"second"))
        await client.ask(DeleteTopicInBroker(topic="new"))
        await waiting
        return [message.body for message in await client.stored("new")]

    assert simulate(scenario) == [b"second"]


def test_a_message_sent_back_waits_for_its_topic() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        sent = await client.send()
        physical = int(sent.answer.msg_id[16:], 16)
        request = ConsumerSendMsgBack(offset=physical, group="g", delay_level=-1)
        await client.ask(request)
        await broker.node.crash()
        await broker.start()
        await Client(world.node("reader"), broker.address).ask(GetTopicConfig(topic="%DLQ%g"))

    simulate(scenario)
