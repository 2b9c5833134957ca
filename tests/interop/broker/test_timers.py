"""Stock 5.5.0 clients send messages for a time and take them back, at Apache's broker and at ours in the same run."""

from collections.abc import Iterator
from contextlib import ExitStack
from time import time

import pytest

from firearrow import fastjson
from firearrow.model import keys
from firearrow.protocol.bodies.admin.store import TimerCheckpoint, TimerMetricsTable
from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer, JudgeProcess, fresh
from judges.conversation import JudgeFailed
from judges.scenarios import SCENARIOS
from judges.server_process import wait_for
from judges.wire import ask

pytestmark = [pytest.mark.apache, pytest.mark.timeout(240)]

ON = {"recallMessageEnable": "true"}
GET_TIMER_CHECK_POINT, GET_TIMER_METRICS = 60, 61
PASSED_ON = frozenset(
    {"MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "CLUSTER", "UNIQ_KEY", "WAIT", "INSTANCE_ID", "__CRC32#"}
)
"""Properties that every message has."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, ApacheBroker]]:
    """Apache's broker and ours, each at a name server of its own, both with recalls allowed."""
    with ExitStack() as stack:
        theirs, ours = (stack.enter_context(FireArrowNameServer()) for _ in range(2))
        apache = stack.enter_context(ApacheBroker("5.5.0", name_servers=[theirs.address], settings=ON))
        firearrow = stack.enter_context(FireArrowBroker(name_servers=[ours.address], settings=ON))
        yield {"apache": apache, "ours": firearrow}


@pytest.fixture(scope="module")
def client() -> Iterator[JudgeProcess]:
    with JudgeProcess("java-5.5.0") as process:
        yield process


@pytest.mark.parametrize("whose", ["apache", "ours"])
def test_times_of_every_kind(brokers: dict[str, ApacheBroker], client: JudgeProcess, whose: str) -> None:
    broker = brokers[whose]
    SCENARIOS["timer"].at(client.at(broker.name_servers[0]), broker)


@pytest.mark.parametrize("whose", ["apache", "ours"])
def test_recall(brokers: dict[str, ApacheBroker], client: JudgeProcess, whose: str) -> None:
    broker = brokers[whose]
    judge = client.at(broker.name_servers[0])
    topic = broker.create_topic(fresh("recalled"), 1)
    sent = judge.send_timed(topic, 3, "setDelayTimeSec", 8)
    assert all(sent.handles)
    with judge.subscribe(topic) as running:
        assert judge.recall(topic, sent.handles[1])
        with pytest.raises(JudgeFailed, match="recall handle is invalid"):
            judge.recall(topic, "nonsense")
        received = running.collect(2, timeout_seconds=40, settle_ms=2000)
    assert {message.digest for message in received.messages} == {sent.digests[0], sent.digests[2]}


def test_properties_of_a_delivered_message_are_apache_s(brokers: dict[str, ApacheBroker], client: JudgeProcess) -> None:
    found = {}
    for whose, broker in brokers.items():
        judge = client.at(broker.name_servers[0])
        topic = broker.create_topic(fresh("delivered"), 1)
        judge.send_timed(topic, 1, "setDelayTimeSec", 2)
        (message,) = judge.receive(topic, 1, with_properties=True).messages
        found[whose] = set(message.properties or {}) - PASSED_ON
    assert found["ours"] == found["apache"]
    assert {keys.TIMER_OUT_MS, keys.TIMER_ENQUEUE_MS, keys.TIMER_DEQUEUE_MS} <= found["ours"]


@pytest.mark.parametrize("whose", ["apache", "ours"])
def test_what_operators_see(brokers: dict[str, ApacheBroker], client: JudgeProcess, whose: str) -> None:

    broker = brokers[whose]
    topic = broker.create_topic(fresh("counted"), 1)
    client.at(broker.name_servers[0]).send_timed(topic, 4, "setDelayTimeSec", 600)

    def waiting() -> int:
        table = fastjson.decode(ask(broker.address, GET_TIMER_METRICS).body, TimerMetricsTable)
        return table.timing_count[topic].count if topic in table.timing_count else 0

    wait_for(lambda: waiting() == 4, "four counted messages", 20)
    check = TimerCheckpoint.decode(ask(broker.address, GET_TIMER_CHECK_POINT).body)
    assert abs(check.last_read_time_ms - time() * 1000) < 20_000
