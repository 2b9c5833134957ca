"""Unfair loops, planted one at a time: a share of the turn works through everything in one step.

Two were findings of a review: the list of all producers in one turn, and a heartbeat with another expression that wakes
every parked pull at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from sys import maxsize
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.size.every_request import EXPRESSION
from benchmarks.size.filled import (
    BODY,
    HOT,
    MEMBERS,
    WIDE,
    a_consumer,
    a_message,
    heartbeat,
    subscription,
)
from firearrow.broker.handlers.group import consumer, reset
from firearrow.broker.handlers.group.heartbeat import HeartbeatHandlers
from firearrow.broker.metrics import lag
from firearrow.broker.pull.filters import Filters
from firearrow.broker.pull.long_poll import ParkedPulls
from firearrow.broker.registration import Registration
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.group.group import GetAllProducerInfo
from firearrow.protocol.requests.group.heartbeat import CheckClientConfig, HeartBeat
from firearrow.protocol.requests.group.reset import InvokeBrokerToResetOffset
from firearrow.remoting.endpoint import Endpoint
from firearrow.runtime.turn import Share
from firearrow.store.log.progress import Progress
from tests.simulation.turns.stage import Stage


class Plant(NamedTuple):
    """An unfair loop: the share that it takes, the bug, and the act that meets it."""

    share: Share
    put: Callable[[pytest.MonkeyPatch, Stage], None]
    act: Callable[[Stage], Awaitable[None]]


class Unpaced:
    """A pace that never lets the loop run."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    async def did(self, work: int = 1) -> None:
        """Go on."""


def walking(owner: type, name: str) -> Callable[[pytest.MonkeyPatch, Stage], None]:
    """Return a bug: whenever this method runs, it looks at every connection."""
    method = getattr(owner, name)

    def put(patch: pytest.MonkeyPatch, stage: Stage) -> None:
        def walk(*arguments: Any, **options: Any) -> Any:
            stage.walk()
            return method(*arguments, **options)

        patch.setattr(owner, name, walk)

    return put


def setting(owner: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch, Stage], None]:
    """Return a bug: a name has another value."""
    return lambda patch, _stage: patch.setattr(owner, name, value)


def unbounded(name: str) -> Callable[[pytest.MonkeyPatch, Stage], None]:
    """Return a bug: a method of the parked pulls takes all of them, however many it was asked for."""
    method = getattr(ParkedPulls, name)

    def take(pulls: Any, *arguments: Any) -> Any:
        given = list(arguments)
        given[-1] = maxsize
        return method(pulls, *given)

    return setting(ParkedPulls, name, take)


async def joined(pieces: Iterable[bytes], _what: str) -> bytes:
    """Join pieces without a pause."""
    return b"".join(pieces)


async def beat(stage: Stage) -> None:
    await stage.tell(HeartBeat(), heartbeat(1, a_consumer(MEMBERS, [subscription(HOT)])))


async def send(stage: Stage) -> None:
    await stage.tell(a_message(HOT, 3, 70_000_000), BODY)


async def wake(stage: Stage) -> None:
    stage.version += 1
    await stage.tell(HeartBeat(), heartbeat(1, a_consumer(MEMBERS, [subscription(HOT, "*", stage.version)])))
    await asyncio.sleep(0.5)
    await stage.filler.park(5_000)
    await stage.tell(a_message(HOT, 0, 70_000_001), BODY)
    stage.filler.hot_end += 1
    await asyncio.sleep(0.5)


async def resubscribe(stage: Stage) -> None:
    await stage.filler.park(5_000)
    stage.version += 1
    changed = subscription(HOT, f"a > {stage.version}", stage.version, "SQL92")
    await stage.tell(HeartBeat(), heartbeat(1, a_consumer(MEMBERS, [changed])))
    await asyncio.sleep(0.5)


async def check(stage: Stage) -> None:
    wanted = CheckClientBody(subscription_data=subscription(HOT, f"{EXPRESSION} AND c = 1", 1, "SQL92"))
    await stage.tell(CheckClientConfig(), encode_body(wanted))


async def list_producers(stage: Stage) -> None:
    await stage.tell(GetAllProducerInfo())


async def move(stage: Stage) -> None:
    await stage.tell(InvokeBrokerToResetOffset(group=MEMBERS, topic=WIDE, timestamp=-1, is_force=True))


async def end(stage: Stage) -> None:
    await stage.filler.park(5_000)
    stage.filler.members.pop().transport.close()
    await asyncio.sleep(0.5)


async def register(stage: Stage) -> None:
    await stage.tell(UpdateBrokerConfig(), b"brokerPermission=6\n")
    await asyncio.sleep(1.0)


async def wait(_stage: Stage) -> None:
    await asyncio.sleep(lag.SAMPLE_S + 1)


PLANTS: Final = {
    "a heartbeat looks at every connection": Plant(Share.READ, walking(HeartbeatHandlers, "_client"), beat),
    "a write of the log looks at every connection": Plant(Share.WRITE, walking(Progress, "note_written"), send),
    "answers are looked for at every connection": Plant(Share.ANSWER, walking(Endpoint, "_flush_all"), send),
    "a message wakes all pulls at once": Plant(Share.PULL, unbounded("arrived"), wake),
    "another expression wakes all pulls at once": Plant(Share.PULL, unbounded("recall_subscribed"), resubscribe),
    "an expression is compiled for every connection": Plant(Share.FILTER, walking(Filters, "check"), check),
    "all producers are listed in one turn": Plant(
        Share.LOOKUP, setting(consumer, "put_together", joined), list_producers
    ),
    "a group is moved in all queues in one turn": Plant(Share.CHANGE, setting(reset, "Pace", Unpaced), move),
    "all pulls of an ended connection are dropped at once": Plant(Share.CONNECTION, unbounded("leave"), end),
    "a registration looks at every connection": Plant(Share.SERVICE, walking(Registration, "all_topics"), register),
    "all groups are sampled in one turn": Plant(Share.BACKGROUND, setting(lag, "Pace", Unpaced), wait),
}
