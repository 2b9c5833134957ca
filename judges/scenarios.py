"""The abilities of a stock client at a cluster, one function a scenario.

A scenario takes a `Judge` (a stock client at some name server) and an empty topic of four queues, and fails by
AssertionError. Nothing in it knows whose name server or broker it talks to, so the same scenario runs against
Apache's servers as a control and against ours as the test. `SCENARIOS` names them all, with the abilities that a
client needs for each::

    for name, scenario in SCENARIOS.items():
        if judge.process.can(*scenario.needs):
            scenario.at(judge, broker)

A scenario that is `aged` wants a topic whose first messages are deleted: of a broker with `SMALL_FILES`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judges.aging import age
from judges.judge import ConsumerKind, Judge, fresh
from judges.reports import ReceiveReport, SendReport
from judges.server_process import answers, wait_for
from judges.servers import ApacheBroker
from judges.wire import GET_ROUTE

QUEUES = 4
ONE_MEBIBYTE = 1 << 20
DELAY_LEVEL_1_MS = 1000
CLOCK_SLACK_MS = 50
TIMER_LATE_MS = 10_000
DEAD_SECONDS = 240.0
ROUNDS = 60
ROUND_MS = 500


@dataclass(frozen=True)
class Exchange:
    """Both halves of a journey."""

    sent: SendReport
    received: ReceiveReport


def exchange(judge: Judge, topic: str, count: int = 1000) -> Exchange:
    """Send `count` messages with tags and keys, receive exactly those."""
    sent = judge.send(topic, count, size=100, tags=["A", "B"], keys=True)
    sent.assert_all_sent()
    received = judge.receive(topic, count)
    received.assert_exactly(sent)
    received.assert_tags_and_keys(sent)
    return Exchange(sent, received)


def sends_sync(judge: Judge, topic: str) -> None:
    """One send after the other, each acknowledged, over all queues; all delivered."""
    sent = judge.send(topic, 100)
    sent.assert_all_sent()
    received = judge.receive(topic, 100)
    received.assert_exactly(sent)
    assert {message.queue for message in received.messages} == set(range(QUEUES))


def carries_keys_and_tags(judge: Judge, topic: str) -> None:
    """Keys and tags come with the message that they were given to."""
    sent = judge.send(topic, 60, tags=["A", "B", "C"], keys=True)
    sent.assert_all_sent()
    received = judge.receive(topic, 60)
    received.assert_exactly(sent)
    received.assert_tags_and_keys(sent)


def sends_async(judge: Judge, topic: str) -> None:
    """Many sends in flight at once, all acknowledged, all delivered."""
    sent = judge.send(topic, 200, mode="async")
    sent.assert_all_sent()
    judge.receive(topic, 200).assert_exactly(sent)


def sends_one_way(judge: Judge, topic: str) -> None:
    """No acknowledgement, yet delivered; a first acknowledged message sees to it that the route is known."""
    first = judge.send(topic, 1, prefix=fresh("oneway"))
    sent = judge.send(topic, 100, mode="oneway", prefix=first.payload.prefix, first=1)
    sent.assert_all_sent()
    judge.receive(topic, 101).assert_exactly(first.joined(sent))


def sends_batches(judge: Judge, topic: str) -> None:
    """Batches are taken apart again: each message comes by itself, with its own tag and key."""
    sent = judge.send(topic, 100, mode="batch", batch=20, tags=["A"], keys=True)
    sent.assert_all_sent()
    received = judge.receive(topic, 100)
    received.assert_exactly(sent)
    received.assert_tags_and_keys(sent)


def sends_large(judge: Judge, topic: str) -> None:
    """One mebibyte a message, which every client compresses on the way."""
    sent = judge.send(topic, 4, size=ONE_MEBIBYTE)
    sent.assert_all_sent()
    received = judge.receive(topic, 4)
    received.assert_exactly(sent)
    assert {message.size for message in received.messages} == {ONE_MEBIBYTE}


def filters_by_tag(judge: Judge, topic: str) -> None:
    """A subscription to two tags of three gets those alone."""
    sent = judge.send(topic, 90, tags=["A", "B", "C"], keys=True)
    received = judge.receive(topic, 60, expression="A || C")
    received.assert_exactly(sent.where(lambda index: index % 3 != 1))
    received.assert_tags_and_keys(sent)


def filters_by_sql(judge: Judge, topic: str) -> None:
    """A subscription by SQL92 over properties gets the matching messages alone."""
    _filter_by_sql(judge, topic, "push")


def lite_pulls_by_sql(judge: Judge, topic: str) -> None:
    """The same for the consumer that polls."""
    _filter_by_sql(judge, topic, "lite")


def pulls_by_sql(judge: Judge, topic: str) -> None:
    """The same for the consumer whose every pull carries the expression."""
    _filter_by_sql(judge, topic, "pull")


def _filter_by_sql(judge: Judge, topic: str, kind: ConsumerKind) -> None:
    expression = "price BETWEEN 1 AND 9 AND color IN ('red', 'blue') AND size IS NULL"
    cheap = judge.send(topic, 20, properties={"price": "5", "color": "red"})
    judge.send(topic, 20, properties={"price": "50", "color": "red"})
    judge.send(topic, 5, properties={"price": "5", "color": "red", "size": "1"})
    judge.send(topic, 5, properties={"price": "five", "color": "red"})
    judge.receive(topic, 20, expression=expression, sql=True, kind=kind).assert_exactly(cheap)


def keeps_order(judge: Judge, topic: str) -> None:
    """Messages of one shard go to one queue and come in the order sent."""
    sent = judge.send(topic, 100, mode="ordered", shards=5)
    sent.assert_all_sent()
    received = judge.receive(topic, 100, ordered=True)
    received.assert_exactly(sent)
    received.assert_ordered(sent, 5)


def spreads_shards(judge: Judge, topic: str) -> None:
    """Messages of one shard all go to one queue."""
    sent = judge.send(topic, 60, mode="ordered", shards=3)
    received = judge.receive(topic, 60)
    received.assert_exactly(sent)
    for shard in range(3):
        queues = {m.queue for m in received.messages if sent.by_digest[m.digest] % 3 == shard}
        assert len(queues) == 1, f"shard {shard} went to queues {sorted(queues)}"


def delays(judge: Judge, topic: str) -> None:
    """A message with delay level 1 comes after its second, not before."""
    with judge.subscribe(topic) as running:
        judge.send(topic, 1)
        running.collect(1, settle_ms=0)
        late = judge.send(topic, 3, delay_level=1)
        received = running.collect(4)
    received_late = [m for m in received.messages if m.digest in late.by_digest]
    assert len(received_late) == 3, f"{len(received_late)} of 3 delayed messages came"
    early = [m.lag_ms for m in received_late if m.lag_ms < DELAY_LEVEL_1_MS - CLOCK_SLACK_MS]
    assert not early, f"delayed messages came after {early} ms"


def delays_to_any_time(judge: Judge, topic: str) -> None:
    """Messages with a delay in seconds, one in milliseconds and a time come when they are due, not before."""
    with judge.subscribe(topic) as running:
        due_ms: dict[str, int] = {}
        for setter, value in (("setDelayTimeSec", 2), ("setDelayTimeMs", 2500), ("setDeliverTimeMs", 0)):
            asked_ms = int(time.time() * 1000)
            wanted_ms = asked_ms + (2_000 if setter == "setDelayTimeSec" else 2_500)
            timed = judge.send_timed(topic, 3, setter, value or wanted_ms)  # type: ignore[arg-type]
            due_ms |= dict.fromkeys(timed.digests, wanted_ms)
        received = running.collect(9, timeout_seconds=30)
    assert sorted(message.digest for message in received.messages) == sorted(due_ms)
    late = [message.stored_ms - due_ms[message.digest] for message in received.messages]
    assert min(late) >= 0, f"timed messages were stored {late} ms after their time"
    assert max(late) < TIMER_LATE_MS, late


def retries(judge: Judge, topic: str) -> None:
    """A message that the listener refuses comes again, and then is done with."""
    group = _known_group(judge, topic)
    with judge.subscribe(topic, group=group, failures=1, retry_level=1) as running:
        sent = judge.send(topic, 5)
        received = running.collect(5)
    received.assert_exactly(sent)
    assert all(message.times == 1 for message in received.messages), [m.times for m in received.messages]
    refused = [delivery for delivery in received.deliveries if delivery.failed]
    assert {delivery.digest for delivery in refused} == set(sent.by_digest)


def gives_up(judge: Judge, topic: str) -> None:
    """A message refused beyond its retries goes to the group's dead letter topic."""
    group = _known_group(judge, topic)
    if not judge.process.can("retry_limit"):
        _gives_up_in_the_end(judge, topic, group)
        return
    with judge.subscribe(topic, group=group, failures=100, retry_level=1, max_reconsume=1) as running:
        sent = judge.send(topic, 3)
        received = running.collect(6, deliveries=True, settle_ms=1500)
    assert len(received.deliveries) == 6, f"{len(received.deliveries)} deliveries instead of 2 of each of 3"
    judge.receive(f"%DLQ%{group}", 3).assert_exactly(sent)


def _gives_up_in_the_end(judge: Judge, topic: str, group: str) -> None:
    """The same with the client's own limit of 16.

    The C interface does not show the listener what follows a refused message in one batch, and sends all of it back:
    so deliveries are not counted.
    """
    dead = f"%DLQ%{group}"
    with judge.subscribe(topic, group=group, failures=100):
        sent = judge.send(topic, 3)
        wait_for(lambda: answers(judge.name_server, GET_ROUTE, {"topic": dead}) is not None, dead, DEAD_SECONDS)
        judge.receive(dead, 3).assert_exactly(sent)


def broadcasts(judge: Judge, topic: str) -> None:
    """Each consumer of a broadcasting group gets every message."""
    group = fresh("broadcast")
    with (
        judge.subscribe(topic, group=group, broadcast=True) as one,
        judge.subscribe(topic, group=group, broadcast=True) as other,
    ):
        sent = judge.send(topic, 40)
        one.collect(40).assert_exactly(sent)
        other.collect(40).assert_exactly(sent)


def pulls(judge: Judge, topic: str) -> None:
    """The consumer that polls gets what the one that is called gets."""
    sent = judge.send(topic, 100)
    judge.receive(topic, 100, kind="lite").assert_exactly(sent)


def starts_young(judge: Judge, topic: str) -> None:
    """A new group on a young topic gets every message, though it asked for those after a time in the future.

    Apache's broker answers 0 for the offset of an unknown group while a queue still has its first message in memory
    (ConsumerManageProcessor.queryConsumerOffset), and no client asks further.
    """
    sent = judge.send(topic, 8)
    judge.receive(topic, 8, start="timestamp", timestamp="20991231235959").assert_exactly(sent)
    judge.receive(topic, 8, start="last").assert_exactly(sent)


def starts_at_time(judge: Judge, topic: str) -> None:
    """A new group on a topic that is not young starts with the first message at or after the second it asks for."""
    judge.send(topic, 2 * QUEUES)
    second = int(time.time()) + 1
    wait_for(lambda: time.time() > second, "the next second")
    later = judge.send(topic, 2 * QUEUES)
    begin = time.strftime("%Y%m%d%H%M%S", time.localtime(second))
    judge.receive(topic, 2 * QUEUES, start="timestamp", timestamp=begin).assert_exactly(later)


def shares(judge: Judge, topic: str) -> None:
    """Two consumers of a group share the queues; when one leaves, the other takes over; nothing is lost."""
    group = fresh("share")
    sent: list[SendReport] = []
    with judge.subscribe(topic, group=group) as stays:
        with judge.subscribe(topic, group=group) as leaves:
            while not (stays.so_far().messages and leaves.so_far().messages):
                assert len(sent) < ROUNDS, f"after {ROUNDS} rounds one consumer still has all the queues"
                sent.append(judge.send(topic, 2 * QUEUES))
                stays.collect(1, settle_ms=ROUND_MS)
            gone = leaves.so_far()
        sent.append(judge.send(topic, 10 * QUEUES))
        wait_for(lambda: not _missing(sent, [gone, stays.so_far()]), "all messages at one of two consumers", 60)


def transacts(judge: Judge, topic: str) -> None:
    """Committed messages come, rolled back ones do not, undecided ones come once the broker has asked."""
    sent = judge.send(topic, 9, mode="transaction", outcomes=["commit", "rollback", "unknown"], check="commit")
    sent.assert_all_sent()
    received = judge.receive(topic, 6, settle_ms=500)
    received.assert_exactly(sent.where(lambda index: index % 3 != 1))
    assert judge.checks(topic) >= 3


def transacts_after_a_death(judge: Judge, topic: str) -> None:
    """A producer is killed before it has decided: another one of its group is asked, and decides."""
    group = fresh("group")
    with judge.another() as other:
        doomed = other.at(judge.name_server)
        sent = doomed.send(topic, 3, mode="transaction", outcomes=["unknown"], group=group, check="unknown")
        sent.assert_all_sent()
        other.kill()
    more = judge.send(topic, 1, mode="transaction", prefix=sent.payload.prefix, first=3, group=group, check="commit")
    more.assert_all_sent()
    received = judge.receive(topic, 4, settle_ms=500)
    received.assert_exactly(sent.joined(more))
    assert judge.checks(topic, group) >= 3


def _known_group(judge: Judge, topic: str) -> str:
    """A group that has had a consumer: its retry topic is routed.

    The broker makes that topic when the first consumer says hello, and a client that asked for its route a moment
    earlier asks again after its own interval, which is up to 30 s.
    """
    group = fresh("group")
    with judge.subscribe(topic, group=group):
        retry = {"topic": f"%RETRY%{group}"}
        wait_for(lambda: answers(judge.name_server, GET_ROUTE, retry) is not None, f"a route of {retry['topic']}")
    return group


def _missing(sent: Sequence[SendReport], received: Sequence[ReceiveReport]) -> list[str]:
    arrived = {message.digest for report in received for message in report.messages}
    return [report.payload.key(i) for report in sent for digest, i in report.by_digest.items() if digest not in arrived]


@dataclass(frozen=True)
class Scenario:
    """A scenario and the abilities that a client needs for it."""

    run: Callable[[Judge, str], object]
    needs: tuple[str, ...]
    aged: bool = False

    def at(self, judge: Judge, broker: ApacheBroker) -> None:
        """Try it with a new topic of a broker."""
        topic = broker.create_topic(fresh(self.run.__name__.replace("_", "-")))
        if self.aged:
            age(broker.address, topic, QUEUES)
        self.run(judge, topic)


SCENARIOS: Mapping[str, Scenario] = {
    "sync": Scenario(sends_sync, ("sync", "push")),
    "keys-and-tags": Scenario(carries_keys_and_tags, ("tags",)),
    "exchange": Scenario(exchange, ("sync", "push")),
    "async": Scenario(sends_async, ("async",)),
    "one-way": Scenario(sends_one_way, ("oneway",)),
    "batch": Scenario(sends_batches, ("batch",)),
    "large": Scenario(sends_large, ("sync", "push")),
    "tags": Scenario(filters_by_tag, ("tags",)),
    "sql": Scenario(filters_by_sql, ("sql",)),
    "sql-lite": Scenario(lite_pulls_by_sql, ("sql", "lite_sql")),
    "sql-pull": Scenario(pulls_by_sql, ("sql", "pull")),
    "shards": Scenario(spreads_shards, ("ordered_send",)),
    "ordered": Scenario(keeps_order, ("ordered_send", "ordered_receive")),
    "delay": Scenario(delays, ("delay",)),
    "timer": Scenario(delays_to_any_time, ("timer",)),
    "retry": Scenario(retries, ("retry",)),
    "dead-letter": Scenario(gives_up, ("dead_letter",)),
    "broadcast": Scenario(broadcasts, ("broadcast",)),
    "pull": Scenario(pulls, ("lite",)),
    "young-topic": Scenario(starts_young, ("timestamp",)),
    "from-time": Scenario(starts_at_time, ("timestamp",), aged=True),
    "rebalance": Scenario(shares, ("push",)),
    "transaction": Scenario(transacts, ("transaction",)),
    "transaction-death": Scenario(transacts_after_a_death, ("transaction",)),
}
