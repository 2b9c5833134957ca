"""A store of ours serves Apache's broker, comes back, and goes again; each of the two adds to it and dies in it once.

ours writes and closes      Apache hands out all of it, delivers delays, takes retries, is stopped
ours looks, writes, dies    Apache hands out all of it, dies
ours looks, writes, closes  Apache hands out all of it, dies
ours looks
"""

import asyncio
import hashlib
from collections import Counter

import pytest

from campaigns.store.examine import fault_of
from campaigns.store.places import Place
from campaigns.store.plan import BATCH, LARGE_BYTES, message, number_of, topic_name
from campaigns.store.programs import examine_as_ours, inspect_store, write_as_ours
from campaigns.store.raw_log import Row, row_of
from campaigns.store.talk import Talk, talking_to
from firearrow.model import PhysicalOffset
from firearrow.model.flags import COMPRESSED
from firearrow.record.compression import decompress
from firearrow.record.hosts import HostBytes
from firearrow.record.message_id import offset_message_id
from judges import ApacheBroker, Judge, ReceiveReport, fresh
from judges.install.artifacts import TOOLS_VERSION
from judges.server_process import answers, wait_for
from judges.shared import SharedServers
from judges.wire import GET_ROUTE
from tests.interop.store.conftest import BrokerOf, Record, for_each_version
from tests.interop.store.sizes import EVERY, IN_TURNS, SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

UNDELAYED = 48 * BATCH
"""Messages from the first on of which none is delayed."""
SAMPLE_EVERY = 97
ADMIN_SAMPLES = 5
CONSUMED, REFUSED = topic_name(7), topic_name(49)
"""The topic that a stock client consumes, and the small one of which it refuses every message once."""


def test_in_turns(broker_of: BrokerOf, shared_servers: SharedServers, record: Record) -> None:
    async def work(version: str) -> None:
        async with broker_of(version) as broker:
            turns = Turns(version, broker, shared_servers)
            await turns.play()
            record("in turns", version, **turns.figures)

    for_each_version(work)


def test_silent_visit(broker_of: BrokerOf, record: Record) -> None:
    """Ours dies; Apache's broker comes, recovers, says nothing and dies too; ours opens what both have left."""

    async def work(version: str) -> None:
        async with broker_of(version) as broker:
            promised = await asyncio.to_thread(
                write_as_ours, broker.store, broker.port, 0, UNDELAYED, killed_after=UNDELAYED // 2
            )
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(broker.kill)
            findings = await asyncio.to_thread(examine_as_ours, broker.store, promised)
        assert not findings.wrong, findings
        assert len(promised) <= findings.whole == findings.records == findings.by_queue
        record("silent visit", version, promised=len(promised), records=findings.records)

    for_each_version(work)


class Turns:
    """One store and what is in it."""

    def __init__(self, version: str, broker: ApacheBroker, servers: SharedServers) -> None:
        self.version = version
        self.broker = broker
        self.servers = servers
        self.root = broker.store
        self.promised: dict[int, Place] = {}
        self.retried = 0
        self.figures: dict[str, int] = {}
        """The findings of the last look, and the number of messages handed out before."""
        self.killed = False
        """Whether Apache's broker has been killed over this store."""

    async def play(self) -> None:
        await self.write(0)
        inspected = await asyncio.to_thread(inspect_store, self.root)
        assert (inspected.status, inspected.records, inspected.whole) == (0, IN_TURNS, IN_TURNS), inspected
        await self.visit_in_full()
        # Nobody but Apache has touched it since: stamps that it copied are not taken for corruption.
        inspected = await asyncio.to_thread(inspect_store, self.root)
        assert inspected.status == 0, inspected
        assert inspected.whole == IN_TURNS < inspected.records
        self.figures |= {"added_by_apache": inspected.records - inspected.whole, "bad_after_apache": len(inspected.bad)}
        await self.look()

        await self.write(1, killed_after=IN_TURNS * 3 // 4)
        await self.visit_and_die()
        await self.look()

        await self.write(2)
        await self.visit_and_die()
        await self.look()

    # ---- ours

    async def write(self, part: int, killed_after: int = 0) -> None:
        """Ours takes the store as Apache left it and appends a part of the plan."""
        promised = await asyncio.to_thread(
            write_as_ours, self.root, self.broker.port, part * IN_TURNS, IN_TURNS, killed_after=killed_after
        )
        assert len(promised) >= (killed_after or IN_TURNS)
        self.promised |= promised

    async def look(self) -> None:
        """Ours opens the store and finds everything that was ever promised, by either."""
        findings = await asyncio.to_thread(examine_as_ours, self.root, self.promised, every=EVERY)
        assert not findings.wrong, findings
        assert findings.by_queue == findings.records
        assert findings.retried == self.retried
        assert findings.whole >= len(self.promised), "what ours wrote keeps its stamps"
        self.figures |= {
            "promised": len(self.promised),
            "records": findings.records,
            "found_by_queue": findings.by_queue,
            "found_by_id": findings.by_id,
            "found_by_key": findings.by_key,
            "found_by_time": findings.by_time,
            "retried": findings.retried,
            "wrong": len(findings.wrong),
        }

    # ---- Apache's

    async def visit_in_full(self) -> None:
        """Apache's broker serves the store to everyone who may ask, adds delays and retries, and ends in order."""
        await asyncio.to_thread(self.broker.start)
        async with talking_to(self.broker.address) as talk:
            await talk.holds(sum(message(number).is_delivered for number in self.promised), SECONDS / 4)
            rows = await self.pull_everything(talk)
            await ask_for_samples(talk, rows)
        await asyncio.to_thread(self.ask_by_mqadmin, rows)
        await asyncio.to_thread(self.consume, rows)
        await asyncio.to_thread(self.broker.stop)

    async def visit_and_die(self) -> None:
        """Apache's broker hands everything out and is killed, delivering delays as it may."""
        await asyncio.to_thread(self.broker.start)
        async with talking_to(self.broker.address) as talk:
            await ask_for_samples(talk, await self.pull_everything(talk))
        await asyncio.to_thread(self.broker.kill)
        self.killed = True

    async def pull_everything(self, talk: Talk) -> list[Row]:
        """All messages of the plan, each once, each as it was sent; what was promised is among them."""
        rows = [row_of(record) for record in await talk.pull_plan()]
        faults = [fault for row in rows if (fault := fault_of(row))]
        assert not faults, faults[:5]
        counts = Counter(number_of(row.properties) for row in rows)
        # Apache writes every 10 s how far its delays are: after a kill some are delivered again.
        again = [number for number, times in counts.items() if times > 1]
        assert not again if not self.killed else all(message(number).delay_level for number in again), again[:5]
        at = {number_of(row.properties): Place(row.physical, row.queue_offset) for row in rows}
        for number, place in self.promised.items():
            if message(number).delay_level == 0:
                assert at.get(number) == place, f"message {number} was promised at {place}, and is at {at.get(number)}"
        self.figures["handed_out"] = self.figures.get("handed_out", 0) + len(rows)
        return rows

    def ask_by_mqadmin(self, rows: list[Row]) -> None:
        """Apache's own tools find messages by key and by id."""
        mqadmin, names = self.servers.mqadmin(self.version), self.broker.name_servers[0]
        keyed = [row for row in rows if "KEYS" in row.properties]
        for row in keyed[:: len(keyed) // ADMIN_SAMPLES]:
            message_id = offset_message_id(HostBytes(row.record[64:72]), PhysicalOffset(row.physical))
            unique = row.properties["UNIQ_KEY"]
            of_topic = f"-t {row.topic}" if self.version.startswith("5.") else ""
            said = mqadmin.run(f"queryMsgById -n {names} {of_topic} -i {message_id}")
            assert unique in said, said
            key = row.properties["KEYS"].split()[0]
            said = mqadmin.run(f"queryMsgByKey -n {names} -t {row.topic} -k {key}")
            assert unique in said, said

    def consume(self, rows: list[Row]) -> None:
        """A stock client consumes a topic through a group, refuses another once, and sends transactions."""
        judge = self.servers.client(f"java-{TOOLS_VERSION[self.version]}").at(self.broker.name_servers[0])
        expected = bodies(rows, CONSUMED)
        assert digests(judge.receive(CONSUMED, expected.total())) == expected

        expected = bodies(rows, REFUSED)
        with judge.subscribe(REFUSED, group=known_group(judge), failures=1, retry_level=1) as running:
            received = running.collect(expected.total())
        assert digests(received) == expected
        assert all(delivery.times == 1 for delivery in received.messages)
        self.retried = expected.total()

        transacted = self.broker.create_topic(fresh("transacted"))
        judge.send(transacted, 6, mode="transaction", outcomes=["commit", "rollback"]).assert_all_sent()
        assert len(judge.receive(transacted, 3).messages) == 3
        judge.process.reset()


async def ask_for_samples(talk: Talk, rows: list[Row]) -> None:
    """The broker finds samples of what it handed out by id and by key, and they are the same bytes."""
    assert rows
    for row in rows[::SAMPLE_EVERY]:
        assert await talk.by_id(row.physical) == row.record
        assert row.record in await talk.by_key(row.topic, row.properties["UNIQ_KEY"])


def bodies(rows: list[Row], topic: str) -> Counter[str]:
    """Digests of the bodies of a topic as a consumer sees them."""
    found: Counter[str] = Counter()
    for row in rows:
        if row.topic == topic:
            plain = decompress(row.body, row.sys_flag, 2 * LARGE_BYTES) if row.sys_flag & COMPRESSED else row.body
            found[hashlib.sha256(plain).hexdigest()] += 1
    assert found
    return found


def digests(received: ReceiveReport) -> Counter[str]:
    """Digests of what a consumer accepted."""
    return Counter(delivery.digest for delivery in received.messages)


def known_group(judge: Judge) -> str:
    """A group that has had a consumer, so that its retry topic is there.

    It looked at another topic than the one that counts: whatever a filter passes over moves a group's offset as well.
    """
    group = fresh("group")
    with judge.subscribe(CONSUMED, group=group, expression="none"):
        retry = {"topic": f"%RETRY%{group}"}
        wait_for(lambda: answers(judge.name_server, GET_ROUTE, retry) is not None, f"a route of {retry['topic']}")
    return group
