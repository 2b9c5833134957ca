"""Apache's broker is stopped with transactions, timed messages and a pop in the middle: ours counts them, refuses the
directory for pops, and takes it once Apache's broker has finished those.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.model import keys
from firearrow.model.flags import PREPARED
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.requests.pop.ack import AckMessage
from firearrow.protocol.requests.pop.pop import PopMessage
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.record.message_id import parse_offset_message_id
from firearrow.record.properties import format_properties
from firearrow.remoting.caller import Caller
from firearrow.remoting.reply import Reply
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.inspect import overview
from firearrow.store.inspection.pending import PendingCounts
from judges import ApacheBroker, FireArrowBroker, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.process import ChildFailed
from judges.server_process import wait_for
from judges.shared import SharedServers
from tests.interop.store.sizes import SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

GROUP = "pending"
COMMIT, ROLLBACK = 8, 12
LATER_S = 60
"""Longer than Apache's broker takes to end."""
PATIENCE_S = 180
SETTINGS = {
    # Nobody is asked about transactions while the test runs.
    "transactionTimeOut": "600000",
    "transactionCheckInterval": "600000",
    "transactionOpBatchInterval": "200",
}


class Begins:
    """Begins things at a broker of Apache's, and ends them."""

    def __init__(self, caller: Caller, broker: ApacheBroker, topic: str) -> None:
        self._caller = caller
        self._address = Address.parse(broker.address)
        self._broker_name = broker.name
        self._topic = topic
        self.halves: list[SendAnswer] = []

    async def ask(self, request: Request[Any], body: bytes = b"") -> Reply[Any]:
        return await self._caller.call(self._address, request, body, timeout_ms=30_000)

    async def send(self, sys_flag: int = 0, properties: Mapping[str, str] | None = None) -> SendAnswer:
        request = SendMessageV2(
            producer_group=GROUP,
            topic=self._topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=sys_flag,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=format_properties({keys.UNIQ_KEY: fresh("key"), **(properties or {})}),
            reconsume_times=0,
            unit_mode=False,
        )
        answer: SendAnswer = (await self.ask(request, b"body")).answer
        return answer

    async def half(self) -> None:
        """Begin a transaction."""
        properties = {keys.TRAN_MSG: "true", keys.PGROUP: GROUP}
        self.halves.append(await self.send(PREPARED, properties))

    async def end(self, half: SendAnswer, how: int) -> None:
        """End a transaction."""
        request = EndTransaction(
            topic=self._topic,
            producer_group=GROUP,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=parse_offset_message_id(half.msg_id)[1],
            commit_or_rollback=how,
            msg_id=half.msg_id,
        )
        await self.ask(request)

    async def pop(self, *, acknowledges: bool) -> None:
        """Take one message for a while."""
        request = PopMessage(
            consumer_group=GROUP,
            topic=self._topic,
            queue_id=0,
            max_msg_nums=1,
            invisible_time=LATER_S * 1000,
            poll_time=0,
            born_time=int(time.time() * 1000),
            init_mode=0,
        )
        popped = (await self.ask(request)).answer
        offset = int(str(popped.start_offset_info).split()[-1])
        if acknowledges:
            where = f"{popped.revive_qid} 0 {self._broker_name} 0 {offset}"
            extra = f"{offset} {popped.pop_time} {popped.invisible_time} {where}"
            await self.ask(
                AckMessage(consumer_group=GROUP, topic=self._topic, queue_id=0, extra_info=extra, offset=offset)
            )

    async def end_of(self, topic: str) -> int:
        """The end of the first queue of a topic."""
        answer = (await self.ask(GetMaxOffset(topic=topic, queue_id=0))).answer
        return int(answer.offset)


async def transact(begins: Begins) -> None:
    """Two plain messages, one transaction that is committed, one that is rolled back, three without an end."""
    for _ in range(2):
        await begins.send()
    for _ in range(5):
        await begins.half()
    await begins.end(begins.halves.pop(), COMMIT)
    await begins.end(begins.halves.pop(), ROLLBACK)


async def pop_and_time(begins: Begins) -> None:
    """The two plain messages are popped, one is acknowledged; two timed messages."""
    await begins.pop(acknowledges=True)
    await begins.pop(acknowledges=False)
    for _ in range(2):
        await begins.send(properties={keys.TIMER_DELAY_SEC: str(LATER_S)})


async def pending_in(root: Path) -> PendingCounts:
    """The pending messages that ``firearrow store inspect`` sees."""
    disk = RealDisk(str(root), read_only=True)
    view = await StoreView.open(disk)
    try:
        return replace((await overview(view)).pending, batched_ops=0)
    finally:
        view.close()
        await disk.close()


async def wait_for_pending(root: Path, expected: PendingCounts) -> None:
    """Wait until a running broker has written so much, and no more, into its files."""
    await asyncio.to_thread(
        wait_for, lambda: asyncio.run(pending_in(root)) == expected, f"{expected} in {root}", PATIENCE_S
    )


def opened_by_ours(broker: ApacheBroker, **settings: str) -> str:
    """Start our broker on the directory and stop it; what it said."""
    told = {"storePathRootDir": str(broker.store)} | settings
    ours = FireArrowBroker(name_servers=broker.name_servers, name=broker.name, settings=told)
    try:
        with suppress(ChildFailed):  # it ended by itself
            ours.start()
            wait_for(lambda: "serves on" in ours.log.read_text(), "the word that it serves")
            ours.stop()
        return ours.log.read_text()
    finally:
        ours.close()


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_refused_until_apache_has_finished(shared_servers: SharedServers, version: str) -> None:
    names = shared_servers.name_server(version).address
    broker = ApacheBroker(version, name_servers=[names], name=fresh("pending"), settings=SETTINGS)
    try:
        asyncio.run(play(broker, more=version.startswith("5.")))
    finally:
        broker.close()


async def play(broker: ApacheBroker, *, more: bool) -> None:
    """Transactions, and with ``more`` what 5.x alone has."""
    begun = PendingCounts(half_messages=3, timers=2 * more, check_points=int(more))
    await asyncio.to_thread(broker.start)
    topic = await asyncio.to_thread(broker.create_topic, fresh("begun"), 1)
    caller = Caller(SystemNetwork())
    try:
        begins = Begins(caller, broker, topic)
        await transact(begins)
        if more:
            await pop_and_time(begins)
        await wait_for_pending(broker.store, begun)
        await asyncio.to_thread(broker.stop)
        await taken_by_ours(broker, begun, is_refused=more)
        await finish(begins, broker, topic, more=more)
    finally:
        await caller.close()
    said = await asyncio.to_thread(opened_by_ours, broker)
    assert "serves on" in said, said
    assert "half message" not in said, said


async def taken_by_ours(broker: ApacheBroker, begun: PendingCounts, *, is_refused: bool) -> None:
    """Ours refuses the directory for pops, and opens it when told to; it forgets no half message."""
    assert await pending_in(broker.store) == begun
    refused = f"holds {replace(begun, half_messages=0, timers=0)}, begun by Apache's broker"
    said = await asyncio.to_thread(opened_by_ours, broker)
    assert ("serves on" in said) != is_refused, said
    assert (refused in said and "openWithPendingState=true" in said) == is_refused, said
    said = await asyncio.to_thread(opened_by_ours, broker, openWithPendingState="true")
    assert (refused in said) == is_refused, said
    assert "serves on" in said, said
    assert (await pending_in(broker.store)).half_messages == begun.half_messages


async def finish(begins: Begins, broker: ApacheBroker, topic: str, *, more: bool) -> None:
    """Apache's broker comes back after ours, and finishes everything."""
    await asyncio.to_thread(broker.start)
    for half in begins.halves:
        await begins.end(half, COMMIT)
    await wait_for_pending(broker.store, PendingCounts())
    # Two plain ones, four that were committed, two timed ones; the one that was popped is in a topic of its own.
    assert await begins.end_of(topic) == 2 + 4 + 2 * more
    if more:
        assert await begins.end_of(f"%RETRY%{GROUP}_{topic}") == 1
    await asyncio.to_thread(broker.stop)
