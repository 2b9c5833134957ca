"""Groups that an operator moves to a time with ``mqadmin resetOffsetByTime``, back and forward, running and off-line.

The first message that a group is given afterwards from a queue is exactly the first at or after that millisecond. A
running group moves back and reads again; to move forward it must be behind, so its client is held (SIGSTOP) while
messages pile up. What the broker had answered before the move may still arrive: the pull that waited at the end of each
queue is answered with the first message after it.
"""

import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from campaigns.faults.ledger import Figures
from judges import Delivery, FireArrowBroker, FireArrowNameServer, Judge, JudgeProcess, Mqadmin, fresh
from judges.server_process import wait_for

CLIENTS = ("java-5.5.0", "java-4.9.8", "go", "node")
SENDER = "go"
QUEUES = 4
ROUNDS = 25
BEFORE = 12
"""In which round the time lies that a group is moved to."""
SETTLE_MS = 1_000
PATIENCE_SECONDS = 60.0

Stored = Sequence[Delivery]
"""Messages with the time at which they were stored."""


class Replay:
    """A topic of our broker, written to over some time, and an operator."""

    def __init__(self, names: FireArrowNameServer, broker: FireArrowBroker, mqadmin: Mqadmin, sender: Judge) -> None:
        self.name_server = names.address
        self._mqadmin = mqadmin
        self._sender = sender
        self._broker = broker
        self.topic = ""

    def begin(self) -> None:
        """Take a new topic."""
        self.topic = self._broker.create_topic(fresh("replay"), QUEUES)

    def fill(self) -> None:
        """Send rounds of messages, no two rounds in one millisecond."""
        for _ in range(ROUNDS):
            self._sender.send(self.topic, 2 * QUEUES)

    def stored(self) -> Stored:
        """Everything that is in the topic."""
        return self._sender.receive(self.topic, 1, settle_ms=SETTLE_MS).deliveries

    def move(self, group: str, time_ms: int) -> None:
        """Move a group, as an operator does."""
        said = self._mqadmin.run(f"resetOffsetByTime -n {self.name_server} -g {group} -t {self.topic} -s {time_ms}")
        assert "broker-a" in said, said


@contextmanager
def replay(version: str = "5.5.0") -> Iterator[Replay]:
    """A broker of ours and a version of Apache's tools."""
    with (
        FireArrowNameServer() as names,
        FireArrowBroker(name_servers=[names.address]) as broker,
        Mqadmin(version) as mqadmin,
        JudgeProcess(SENDER) as sender,
    ):
        yield Replay(names, broker, mqadmin, sender.at(names.address))


def moves_a_running_group(run: Replay, client: JudgeProcess) -> Figures:
    """Back, while the consumer runs; then forward, while it is held and behind."""
    run.begin()
    judge, group = client.at(run.name_server), fresh("moved")
    with judge.subscribe(run.topic, group=group) as consumer:
        run.fill()
        stored = run.stored()
        given = len(consumer.collect(len(stored)).deliveries)
        time_ms = _time_of(stored, BEFORE)
        run.move(group, time_ms)
        back = _at_or_after(stored, time_ms)
        again = consumer.collect(given + len(back), deliveries=True, settle_ms=SETTLE_MS).deliveries[given:]
        _assert_exactly(again, back)
        with _held(client):
            run.fill()
            piled = [one for one in run.stored() if one.digest not in {old.digest for old in stored}]
            later_ms = _time_of(piled, BEFORE)
            run.move(group, later_ms)
        forward = _at_or_after(piled, later_ms)
        wanted = {one.digest for one in forward}
        begun = given + len(back)
        wait_for(
            lambda: wanted <= {one.digest for one in consumer.so_far().deliveries[begun:]},
            f"{len(wanted)} messages after the move forward",
            PATIENCE_SECONDS,
        )
        _assert_forward(consumer.collect(0, settle_ms=SETTLE_MS).deliveries[begun:], forward)
    client.reset()
    return {"client": client.client, "stored": len(stored) + len(piled), "back": len(back), "forward": len(forward)}


def moves_an_offline_group(run: Replay, client: JudgeProcess) -> Figures:
    """Back and forward, while nobody of the group is there."""
    run.begin()
    judge, group = client.at(run.name_server), fresh("offline")
    with judge.subscribe(run.topic, group=group) as consumer:
        run.fill()
        stored = run.stored()
        consumer.collect(len(stored))
    counts = {}
    for way, moment in (("back", BEFORE), ("forward", 2 * BEFORE)):
        time_ms = _time_of(stored, moment)
        run.move(group, time_ms)
        expected = _at_or_after(stored, time_ms)
        with judge.subscribe(run.topic, group=group) as consumer:
            _assert_exactly(consumer.collect(len(expected), settle_ms=SETTLE_MS).deliveries, expected)
        counts[way] = len(expected)
        if way == "back":
            run.move(group, 0)  # so that the next move is one forward
    client.reset()
    return {"client": client.client, "offline": True, "stored": len(stored), **counts}


def _time_of(stored: Stored, moment: int) -> int:
    """Return the store time of the message that begins a round."""
    return sorted(one.stored_ms for one in stored)[moment * 2 * QUEUES]


def _at_or_after(stored: Stored, time_ms: int) -> Stored:
    return [one for one in stored if one.stored_ms >= time_ms]


def _firsts(deliveries: Iterable[Delivery]) -> dict[int, int]:
    """The first offset of every queue."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for one in deliveries:
        offsets[one.queue].append(one.offset)
    return {queue: min(found) for queue, found in sorted(offsets.items())}


def _assert_exactly(given: Stored, expected: Stored) -> None:
    assert _firsts(given) == _firsts(expected), f"began at {_firsts(given)}, not at {_firsts(expected)}"
    assert {one.digest for one in given} == {one.digest for one in expected}


def _assert_forward(given: Stored, expected: Stored) -> None:
    """Nothing before the place but what was answered already: the one message that ended each waiting pull."""
    firsts = _firsts(expected)
    early = [one for one in given if one.offset < firsts[one.queue]]
    assert len({(one.queue, one.offset) for one in early}) <= QUEUES, f"{len(early)} messages from before the place"
    _assert_exactly([one for one in given if one.offset >= firsts[one.queue]], expected)


@contextmanager
def _held(client: JudgeProcess) -> Iterator[None]:
    child = client.conversation().child
    child.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        child.signal(signal.SIGCONT)
