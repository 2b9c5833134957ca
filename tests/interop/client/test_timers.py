"""Messages that are delayed to any time, and recalled, at Apache's brokers and ours."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from firearrow import blocking
from firearrow.client import Message, Producer
from firearrow.errors import FireArrowError, RequestRefused, SendFailed, Unsupported
from judges import ApacheBroker, FireArrowBroker, fresh
from judges.wire import SUCCESS, UPDATE_BROKER_SETTINGS, ask
from tests.interop.client.ours import receive, until
from tests.interop.client.reading import reading

pytestmark = [pytest.mark.apache, pytest.mark.real]

PRECISION_MS = 1000
"""The precision of Apache's timers: a message may come that much before its time."""


def recalls(broker: ApacheBroker, *, allowed: bool) -> None:
    """Allow recalls, or not, while the broker runs."""
    setting = f"recallMessageEnable={str(allowed).lower()}"
    assert ask(broker.address, UPDATE_BROKER_SETTINGS, body=setting.encode()).code == SUCCESS


@pytest.fixture
def timed(broker: ApacheBroker) -> ApacheBroker:
    """A broker that has timers."""
    if has_no_timers(broker):
        pytest.skip("brokers of 4.9 have no timers")
    return broker


def has_no_timers(broker: ApacheBroker) -> bool:
    return not isinstance(broker, FireArrowBroker) and broker.version.startswith("4.")


def test_messages_come_when_they_are_due_and_not_before(timed: ApacheBroker) -> None:
    topic, at = timed.create_topic(fresh("timers"), 2), timed.name_servers[0]
    begun_ms = int(time.time() * 1000)
    due = {
        b"after 2.5 s": begun_ms + 2500,
        b"at 3.5 s": begun_ms + 3500,
        b"at once": begun_ms,
    }

    async def main() -> None:
        async with Producer(at, group=fresh("P")) as producer:
            sent = [
                await producer.send(Message(topic, b"after 2.5 s", delay=timedelta(milliseconds=2500))),
                await producer.send(
                    Message(topic, b"at 3.5 s", deliver_at=datetime.fromtimestamp(due[b"at 3.5 s"] / 1000, UTC))
                ),
                await producer.send(Message(topic, b"at once", deliver_at=datetime(2020, 1, 1, tzinfo=UTC))),
            ]
            assert [each.recall_handle is not None for each in sent] == [True, True, False]
        async with reading(at, topic) as reader:
            await until(lambda: len(reader.bodies) == 3, "three messages")
            assert reader.bodies == [b"at once", b"after 2.5 s", b"at 3.5 s"]
            for body, came_ms in zip(reader.bodies, reader.came_ms, strict=True):
                assert came_ms >= due[body] - PRECISION_MS

    asyncio.run(main())


def test_a_message_is_recalled_until_it_is_due(timed: ApacheBroker) -> None:
    topic, at = timed.create_topic(fresh("recalled"), 1), timed.name_servers[0]
    recalls(timed, allowed=True)

    async def main() -> None:
        async with Producer(at, group=fresh("P")) as producer, reading(at, topic) as reader:
            wrong = await producer.send(Message(topic, b"recalled", delay=timedelta(seconds=4)))
            kept = await producer.send(Message(topic, b"kept", delay=timedelta(seconds=5)))
            assert wrong.recall_handle is not None
            assert kept.recall_handle is not None
            assert await producer.recall(topic, wrong.recall_handle) == wrong.message_id
            with pytest.raises(RequestRefused, match="until it is due, from its own topic"):
                await producer.recall(timed.create_topic(fresh("another"), 1), kept.recall_handle)
            await until(lambda: b"kept" in reader.bodies, "the message that was not recalled")
            assert reader.bodies == [b"kept"]
            with pytest.raises(RequestRefused, match="until it is due"):
                await producer.recall(topic, kept.recall_handle)

    asyncio.run(main())


def test_a_recall_that_is_not_allowed_says_what_to_set(timed: ApacheBroker) -> None:
    topic, at = timed.create_topic(fresh("forbidden"), 1), timed.name_servers[0]
    recalls(timed, allowed=False)
    with blocking.Producer(at, group=fresh("P")) as producer:
        sent = producer.send(Message(topic, b"x", delay=timedelta(seconds=3)))
        assert sent.recall_handle is not None
        with pytest.raises(RequestRefused, match="set recallMessageEnable=true"):
            producer.recall(topic, sent.recall_handle)
    recalls(timed, allowed=True)


def test_a_delay_beyond_the_brokers_limit_is_refused(timed: ApacheBroker) -> None:
    topic, at = timed.create_topic(fresh("far"), 1), timed.name_servers[0]
    told = pytest.raises(SendFailed, match=r"max delay.*raise timerMaxDelaySec at the broker")
    with blocking.Producer(at, group=fresh("P")) as producer, told:
        producer.send(Message(topic, b"x", delay=timedelta(days=400)))


def test_a_broker_without_timers_gets_no_timed_message(broker: ApacheBroker) -> None:
    if not has_no_timers(broker):
        pytest.skip("this broker has timers")
    topic, at = broker.create_topic(fresh("untimed"), 1), broker.name_servers[0]

    async def main() -> None:
        async with Producer(at, group=fresh("P")) as producer:
            timed = Message(topic, b"at once?", delay=timedelta(seconds=3))
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(Unsupported, match=r"is of version 4\.9\.\d, which would deliver .* at once"):
                    await send(timed)
            with pytest.raises(FireArrowError, match="not a recall handle"):
                await producer.recall(topic, None)  # type: ignore[arg-type]
            await producer.send(Message(topic, b"plain"))
        came = await receive(at, topic, 1)
        assert len(came.deliveries) == 1

    asyncio.run(main())
