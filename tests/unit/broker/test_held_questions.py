"""Replicas may ask to be answered at the next change of the tables: nobody else notices their questions."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from campaigns.samples import a_topic
from firearrow.broker.replication.held_questions import HELD_S, HeldQuestions
from firearrow.broker.state.state_file import tell_all
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.testing.sim.world import World
from tests.unit.broker import test_failover_group as elected
from tests.unit.broker.test_table_copies import make_group, run_elected
from tests.unit.broker.whole import Client, Simulated, simulate

SOON_S = HELD_S / 2
QUESTIONS = 50


def ask_a_plain_broker() -> None:
    """A client asks for the next change at a broker without epochs, while an operator changes tables."""

    async def scenario(world: World, broker: Simulated, operator: Client) -> None:
        stranger = Client(world.node("stranger"), broker.address)
        changes: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: operator.ask(a_topic("A")),
            lambda: make_group(operator, "g"),
        )
        for known, change in enumerate(changes):
            question = asyncio.create_task(stranger.ask(GetBrokerEpochCache(known=known)))
            await asyncio.sleep(SOON_S)
            await change()
            assert question.done(), "a broker without epochs holds a question"
            with pytest.raises(RequestRefused, match="only for controllerMode"):
                await question
        await make_group(operator, "h")

    simulate(scenario)


def test_a_question_to_a_plain_broker_is_refused_and_harms_no_operator() -> None:
    ask_a_plain_broker()


def held() -> int:
    """The number of questions that all brokers hold."""
    return sum(len(one) for one in gc.get_objects() if isinstance(one, HeldQuestions))


def ask_a_group() -> None:
    """Strangers and a replica ask the master of a group in which nothing changes."""

    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        state = group.state
        assert state is not None
        known = (await client.ask(GetBrokerEpochCache())).answer.tables
        replica, directory = next(one for one in state.directories if one[0] != master)
        of_replica = GetBrokerEpochCache(replica=replica, epoch=state.epoch, directory=directory, known=known)
        strangers = (
            GetBrokerEpochCache(known=known),
            GetBrokerEpochCache(replica=replica, epoch=state.epoch, directory=directory + 1, known=known),
            GetBrokerEpochCache(replica=replica, epoch=state.epoch + 1, directory=directory, known=known),
            GetBrokerEpochCache(replica=77, epoch=state.epoch, directory=0, known=known),
        )
        async with asyncio.timeout(SOON_S):
            for question in strangers:
                await client.ask(question)
        for number, member in group.members.items():
            if number != master:  # it asks no more, so only our questions are held
                member.node.freeze()
        await asyncio.sleep(2 * HELD_S)
        asked = [asyncio.create_task(client.ask(of_replica, bytes(1 << 10))) for _ in range(QUESTIONS)]
        await asyncio.sleep(SOON_S)
        assert sum(one.done() for one in asked) == QUESTIONS - 1, "a replica has several places"
        assert held() <= len(group.members), "more questions are held than there are replicas"
        await asyncio.gather(*asked)
        assert held() == 0, "questions are held that are answered"

    run_elected(scenario)


def test_only_replicas_are_held_each_once_and_no_longer_than_said() -> None:
    ask_a_group()


def test_a_held_question_is_answered_at_the_change() -> None:
    async def scenario(group: elected.Group, client: Client, _readers: list[Client], master: int) -> None:
        state = group.state
        assert state is not None
        known = (await client.ask(GetBrokerEpochCache())).answer.tables
        replica, directory = next(one for one in state.directories if one[0] != master)
        asked = GetBrokerEpochCache(replica=replica, epoch=state.epoch, directory=directory, known=known)
        group.members[replica].node.freeze()
        await asyncio.sleep(2 * HELD_S)
        question = asyncio.create_task(client.ask(asked))
        await asyncio.sleep(SOON_S / 2)
        assert not question.done()
        change = asyncio.create_task(client.ask(a_topic("N"), timeout_ms=30_000))
        async with asyncio.timeout(SOON_S):
            assert (await question).answer.tables == known + 1
        group.members[replica].node.thaw()
        await change

    run_elected(scenario)


@pytest.mark.complaints("a callback failed")
def test_a_callback_that_fails_keeps_no_other_from_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    told: list[FireArrowError | None] = []

    def fail(_error: FireArrowError | None) -> None:
        raise RequestRefused(1, "nobody waits for this")

    tell_all([fail, told.append], None)
    assert told == [None]
    assert "a callback failed" in caplog.text
