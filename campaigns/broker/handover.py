"""Handover of open transactions between Apache's broker and ours, both ways, after an orderly end or a kill.

One broker takes half messages and ends some of them; it is stopped or killed; the other broker starts on the same
directory and asks about the rest. A message is committed exactly once or, where the first broker lost the mark of its
end (Apache 5.5.0 writes these marks up to 3 s late), once more; one that was rolled back is never there.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from firearrow.errors import FireArrowError
from firearrow.model import keys
from firearrow.model.flags import COMMIT, PREPARED, ROLLBACK
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData, ProducerData
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.requests.transaction.transaction import CheckTransactionState, EndTransaction
from firearrow.record.decode import decode, decode_all
from firearrow.record.message_id import parse_offset_message_id
from firearrow.record.properties import format_properties
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.store.inspection.directory import StoreView
from firearrow.store.inspection.inspect import overview
from firearrow.store.inspection.pending import PendingCounts
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, fresh

Direction = Literal["to ours", "from ours"]
Ending = Literal["stop", "kill"]
GROUP: Final = "handover"
AT_ONCE: Final = 50
PATIENCE_S: Final = 300.0
PULL_CODES: Final = frozenset({0, 19, 20, 21})
SUBSCRIPTION_FLAG: Final = 4
UNKNOWN: Final = 0
ASKED_LATE: Final = 2
"""So many questions about a transaction of the last fate are answered with "unknown"."""
NOBODY_ASKED: Final = {"transactionTimeOut": "600000", "transactionCheckInterval": "600000"}
ASKED_SOON: Final = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
ASKED_BY_APACHE: Final = {
    # A broker of Apache's that asks more often than it writes its marks asks about what is decided already.
    "transactionTimeOut": "4000",
    "transactionCheckInterval": "4000",
    "transactionOpBatchInterval": "200",
}

FATES: Final = ("committed", "rolled back", "to commit", "to roll back", "to commit in the end")
"""The end of a transaction, by its number: the first two end at the first broker, the others at the second."""


def fate(number: int) -> str:
    """The fate of a transaction."""
    return FATES[number % len(FATES)]


def with_open(count: int) -> int:
    """The number of transactions to begin so that at least ``count`` are open at the handover."""
    return -(-count // (len(FATES) - 2)) * len(FATES)


@dataclass(frozen=True)
class Outcome:
    """The state of the transactions at the second broker."""

    halves: int
    open_before: int
    """Pending half messages in the files between the two brokers."""
    open_after: int
    lost: int
    phantoms: int
    """Messages of transactions that were rolled back."""
    repeated: int
    """Messages that are there a second time, although one end was acknowledged."""
    allowed: int
    """The number of repeats that the first broker may have caused."""
    questions: int
    seconds: float

    @property
    def broken(self) -> list[str]:
        """Complaints."""
        found = {
            "lost": self.lost,
            "rolled back and yet there": self.phantoms,
            "twice": max(self.repeated - self.allowed, 0),
            "still open": self.open_after,
        }
        return [f"{count} {what}" for what, count in found.items() if count]


class TransactionProducer:
    """A producer that begins transactions, ends them, and answers questions by their fate."""

    def __init__(self, broker: ApacheBroker, topic: str) -> None:
        handlers = Handlers()
        handlers.on(CheckTransactionState, self._asked)
        self.caller = Caller(SystemNetwork(), handlers=handlers)
        self.questions: Counter[int] = Counter()
        self._address = Address.parse(broker.address)
        self._topic = topic

    async def ask(self, request: Any, body: bytes = b"", **options: Any) -> Any:  # noqa: ANN401
        """Say one request to the broker."""
        return await self.caller.call(self._address, request, body, timeout_ms=30_000, **options)

    def _asked(self, request: CheckTransactionState, call: Call) -> None:
        number = int(decode(call.body).body)
        self.questions[number] += 1
        answers = {"to roll back": ROLLBACK, "rolled back": ROLLBACK}
        answer = answers.get(fate(number), COMMIT)
        if fate(number) == "to commit in the end" and self.questions[number] <= ASKED_LATE:
            answer = UNKNOWN
        place = (request.tran_state_table_offset, request.commit_log_offset)
        call.peer.push(self._end(*place, answer, request.msg_id or "", is_checked=True))

    def _end(self, offset: int, physical: int, how: int, key: str, *, is_checked: bool = False) -> EndTransaction:
        return EndTransaction(
            topic=self._topic,
            producer_group=GROUP,
            tran_state_table_offset=offset,
            commit_log_offset=physical,
            commit_or_rollback=how,
            from_transaction_check=is_checked,
            msg_id=key,
            transaction_id=key,
        )

    async def begin(self, number: int, on_half: Callable[[], object] = lambda: None) -> None:
        """Begin a transaction, call ``on_half`` when that is acknowledged, and end it if that is its fate."""
        key = f"{number:032X}"
        properties = {keys.UNIQ_KEY: key, keys.TRAN_MSG: "true", keys.PGROUP: GROUP}
        request = SendMessageV2(
            producer_group=GROUP,
            topic=self._topic,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=PREPARED,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=format_properties(properties),
            reconsume_times=0,
            unit_mode=False,
        )
        half: SendAnswer = (await self.ask(request, b"%d" % number)).answer
        on_half()
        how = {"committed": COMMIT, "rolled back": ROLLBACK}.get(fate(number))
        if how is not None:
            await self.ask(self._end(half.queue_offset, parse_offset_message_id(half.msg_id)[1], how, key))

    async def join(self) -> None:
        """Say that this producer is there."""
        data = HeartbeatData(client_id=fresh("producer"), producer_data_set=[ProducerData(group_name=GROUP)])
        await self.ask(HeartBeat(), encode_body(data))

    async def stored(self) -> Counter[int]:
        """Count the messages of each transaction in the topic."""
        found: Counter[int] = Counter()
        offset = 0
        while True:
            request = PullMessage(
                consumer_group="reader",
                topic=self._topic,
                queue_id=0,
                queue_offset=offset,
                max_msg_nums=32,
                sys_flag=SUBSCRIPTION_FLAG,
                commit_offset=0,
                suspend_timeout_millis=0,
                sub_version=0,
                subscription="*",
            )
            reply = await self.ask(request, accept=PULL_CODES)
            messages = list(decode_all(reply.body)) if reply.code == 0 else []
            if not messages:
                return found
            found.update(int(message.body) for message in messages)
            offset = messages[-1].queue_offset + 1


async def pending_in(root: Path) -> PendingCounts:
    """The pending transactions that ``firearrow store inspect`` sees."""
    disk = RealDisk(str(root), read_only=True)
    view = await StoreView.open(disk)
    try:
        return (await overview(view)).pending
    finally:
        view.close()
        await disk.close()


def handed_over(version: str, direction: Direction, ending: Ending, count: int) -> Outcome:
    """Hand ``count`` transactions over between Apache's broker of a version and ours."""
    with ExitStack() as stack:
        names = stack.enter_context(ApacheNameServer(version))
        first, second = _pair(version, names.address, is_to_ours=direction == "to ours")
        stack.callback(second.close)
        stack.callback(first.close)
        return asyncio.run(_play(first, second, ending, count, version))


def _pair(version: str, names: str, *, is_to_ours: bool) -> tuple[ApacheBroker, ApacheBroker]:
    """The broker that begins and the one that goes on, on one directory."""
    name = fresh("handover")
    apache = ApacheBroker(version, name_servers=[names], name=name)
    ours = FireArrowBroker(name_servers=[names], name=name)
    pair = (apache, ours) if is_to_ours else (ours, apache)
    one_by_one = {"transactionOpPerMessage": "true"} if version.startswith("4.") else {}
    asked = ASKED_SOON if is_to_ours else ASKED_BY_APACHE
    for broker, told in zip(pair, (NOBODY_ASKED, asked), strict=True):
        broker.settings |= told | (one_by_one if broker is ours else {})
        broker.settings["storePathRootDir"] = str(apache.store)
    return pair


async def _play(first: ApacheBroker, second: ApacheBroker, ending: Ending, count: int, version: str) -> Outcome:
    began = time.monotonic()
    root = Path(first.settings["storePathRootDir"])
    await asyncio.to_thread(first.start)
    topic = await asyncio.to_thread(first.create_topic, fresh("orders"), 1)
    await _begin(TransactionProducer(first, topic), count)
    await asyncio.to_thread(first.stop if ending == "stop" else first.kill)
    between = await pending_in(root)
    if not isinstance(second, FireArrowBroker):
        assert not between.hinders(version), between.hinders(version)
    await asyncio.to_thread(second.start)
    # Apache's broker does not read our journal: a topic made just before a kill must be made again.
    await asyncio.to_thread(second.create_topic, topic, 1)
    producer = TransactionProducer(second, topic)
    try:
        found = await _finish(producer, root, count)
        after = await pending_in(root)
    finally:
        await producer.caller.close()
    await asyncio.to_thread(second.stop)
    return _judged(found, count, between, after, producer, time.monotonic() - began)


async def _begin(producer: TransactionProducer, count: int) -> None:
    try:
        for start in range(0, count, AT_ONCE):
            await asyncio.gather(*(producer.begin(number) for number in range(start, min(start + AT_ONCE, count))))
    finally:
        await producer.caller.close()


async def _finish(producer: TransactionProducer, root: Path, count: int) -> Mapping[int, int]:
    """Answer questions until nothing is open; return how often each message is there."""
    until = time.monotonic() + PATIENCE_S
    wanted = {number for number in range(count) if "commit" in fate(number)}
    await producer.join()
    while time.monotonic() < until:
        try:
            found = await producer.stored()
            if wanted <= found.keys() and not (await pending_in(root)).half_messages:
                break
        except (FireArrowError, OSError):
            pass  # the files are read while they are written
        await asyncio.sleep(1)
    return await producer.stored()


def _judged(
    found: Mapping[int, int],
    count: int,
    between: PendingCounts,
    after: PendingCounts,
    producer: TransactionProducer,
    seconds: float,
) -> Outcome:
    wanted = [number for number in range(count) if "commit" in fate(number)]
    still_open = sum(fate(number) not in ("committed", "rolled back") for number in range(count))
    return Outcome(
        halves=count,
        open_before=between.half_messages,
        open_after=after.half_messages,
        lost=sum(number not in found for number in wanted),
        phantoms=sum("roll" in fate(number) for number in found),
        repeated=sum(times - 1 for times in found.values()),
        allowed=max(between.half_messages - still_open, 0),
        questions=producer.questions.total(),
        seconds=round(seconds, 1),
    )


def cells() -> Iterator[tuple[str, Direction, Ending]]:
    """Every version, direction and ending."""
    directions: tuple[Direction, ...] = ("to ours", "from ours")
    endings: tuple[Ending, ...] = ("stop", "kill")
    for version in ("5.5.0", "4.9.7"):
        for direction in directions:
            for ending in endings:
                yield version, direction, ending
