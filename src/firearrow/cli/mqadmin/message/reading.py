"""``printMsg``, ``printMsgByQueue``, ``consumeMessage``, ``queryCq``."""

from collections import Counter
from typing import Final

from firearrow.cli.mqadmin.java_text import read_time
from firearrow.cli.mqadmin.message.message_text import message_text, pulled_properties, shown_id, text_of
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.topic.views import json_text
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.client import MessageQueue, PullConsumer, PulledBytes, PullStatus
from firearrow.errors import NoSuchName, SettingsError
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from firearrow.runtime.clock import SystemClock

STATUS: Final = {
    PullStatus.NOTHING_NEW: "NO_NEW_MSG",
    PullStatus.NOTHING_MATCHED: "NO_MATCHED_MSG",
    PullStatus.OFFSET_MOVED: "OFFSET_ILLEGAL",
}
AT_A_TIME: Final = 32
MOST: Final = 128
RULE: Final = "======================================"


def _reader(session: Session, group: str = TOOLS_CONSUMER_GROUP) -> PullConsumer[bytes]:
    return PullConsumer(session.name_servers, group=group, **session.reach)


class _Bounds:
    """The first and the end of queues, moved by -b (or -s) and -e."""

    def __init__(self, consumer: PullConsumer[bytes], begin: str, end: str) -> None:
        self._consumer = consumer
        self._begin = begin
        self._end = end

    async def of(self, topic: str) -> dict[MessageQueue, tuple[int, int]]:
        """Return the bounds of every queue of a topic."""
        held = await self._consumer.bounds(topic)
        firsts = {queue: each.first for queue, each in held.items()}
        ends = {queue: each.end for queue, each in held.items()}
        if self._begin:
            firsts = await self._consumer.offsets_at(held, read_time(self._begin))
        if self._end:
            ends = await self._consumer.offsets_at(held, read_time(self._end))
        return {queue: (firsts[queue], ends[queue]) for queue in sorted(held)}

    async def at(self, queue: MessageQueue) -> tuple[int, int]:
        """Return the bounds of one queue."""
        found = await self.of(queue.topic)
        if queue not in found:
            raise NoSuchName(
                f"topic {queue.topic!r} has no queue {queue.queue_id} at {queue.broker_name!r}; "
                f"mqadmin topicStatus -t {queue.topic} lists them"
            )
        return found[queue]


def _lines(pulled: PulledBytes, queue: MessageQueue, charset: str, *, with_body: bool) -> list[str]:
    more = pulled_properties(pulled.min_offset, pulled.max_offset)
    return [
        f"MSGID: {shown_id(message)} {message_text(message, queue.broker_name, more)} "
        f"BODY: {text_of(message.body, charset) if with_body else 'NOT PRINT BODY'}"
        for message in pulled.messages()
    ]


async def print_msg(session: Session, given: OptionValues) -> None:
    """Print the messages of a topic, queue by queue."""
    charset, wanted = given.text("c", "UTF-8"), given.text("s", "*")
    async with _reader(session) as consumer:
        bounds = await _Bounds(consumer, given.text("b"), given.text("e")).of(given.text("t"))
        for queue, (first, end) in bounds.items():
            session.line("minOffset=%s, maxOffset=%s, %s", first, end, queue)
            offset, is_over = first, False
            while offset < end and not is_over:
                pulled = await consumer.pull_bytes(queue, offset, expression=wanted, max_messages=AT_A_TIME)
                offset = pulled.next_offset
                is_over = _print_pulled(session, pulled, queue, charset, with_body=given.truth("d", True))
            session.line("--------------------------------------------------------")


def _print_pulled(session: Session, pulled: PulledBytes, queue: MessageQueue, charset: str, *, with_body: bool) -> bool:
    """Print what a pull has brought; return whether it was the last."""
    if pulled.status is PullStatus.FOUND:
        for line in _lines(pulled, queue, charset, with_body=with_body):
            session.line("%s", line)
        return False
    over = pulled.status is not PullStatus.NOTHING_MATCHED
    told = "print msg finished" if over else "no matched msg"
    session.line(f"%s {told}. status=%s, offset=%s", queue, STATUS[pulled.status], pulled.next_offset)
    return over


async def print_msg_by_queue(session: Session, given: OptionValues) -> None:
    """Print the messages of one queue, or how many there are of each tag."""
    queue = MessageQueue(given.text("t"), given.text("a"), given.number("i"))
    charset, wanted, counts = given.text("c", "UTF-8"), given.text("s", "*"), Counter[str]()
    async with _reader(session) as consumer:
        offset, end = await _Bounds(consumer, given.text("b"), given.text("e")).at(queue)
        while offset < end:
            pulled = await consumer.pull_bytes(queue, offset, expression=wanted, max_messages=AT_A_TIME)
            if pulled.status is not PullStatus.FOUND:
                break
            offset = pulled.next_offset
            counts.update(message.tag for message in pulled.messages() if message.tag.strip())
            if given.truth("p"):
                for line in _lines(pulled, queue, charset, with_body=given.truth("d")):
                    session.line("%s", line)
    if given.truth("f"):
        for tag, count in counts.most_common():
            session.line("Tag: %-30s Count: %s", tag, count)


async def consume_message(session: Session, given: OptionValues) -> None:
    """Print the first messages of a topic, of a queue, or from an offset on."""
    _check_consume(given)
    left = given.number("c", MOST)
    async with _reader(session, given.text("g", TOOLS_CONSUMER_GROUP)) as consumer:
        places = _Bounds(consumer, given.text("s"), given.text("e"))
        if given.has("i"):
            queue = MessageQueue(given.text("t"), given.text("b"), given.number("i"))
            first, end = await places.at(queue)
            if given.number("o") > end:
                session.line("%s no matched msg, offset=%s", queue, given.number("o"))
                return
            first = max(first, given.number("o"))
            if end - first > left:
                session.line("The oldler %d message will be provided", left)
                end = first + left - 1
            await _consume(session, consumer, queue, first, end)
            return
        for queue, (first, end) in (await places.of(given.text("t"))).items():
            if left == 0:
                return
            if end - first > left:
                session.line("The older %d message of the %d queue will be provided", left, queue.queue_id)
                await _consume(session, consumer, queue, first, first + left - 1)
                return
            left -= end - first
            await _consume(session, consumer, queue, first, end)


def _check_consume(given: OptionValues) -> None:
    now = SystemClock().now_ms()
    begin, end = (read_time(given.text(short)) if given.has(short) else 0 for short in ("s", "e"))
    faults = {
        "Please input a positive messageNumber!": given.has("c") and given.number("c") <= 0,
        "Please set the brokerName before queueId!": given.has("i") and not given.has("b"),
        "Please set queueId before offset!": given.has("o") and not given.has("i"),
        "Please set the beginTimestamp before now!": begin > now,
        "Please set the endTimestamp before now!": end > now,
        "Please make sure that the beginTimestamp is less than or equal to the endTimestamp": 0 < end < begin,
    }
    for told, is_so in faults.items():
        if is_so:
            raise SettingsError(told)


async def _consume(session: Session, consumer: PullConsumer[bytes], queue: MessageQueue, first: int, last: int) -> None:
    """Print messages up to ``last``, which is printed too."""
    offset = first
    while offset <= last:
        pulled = await consumer.pull_bytes(queue, offset, max_messages=last - offset + 1)
        offset = pulled.next_offset
        if pulled.status is PullStatus.FOUND:
            session.line("Consume ok")
        if _print_pulled(session, pulled, queue, "UTF-8", with_body=True):
            return


async def query_cq(session: Session, given: OptionValues) -> None:
    """Print entries of a consume queue."""
    topic, index = given.text("t"), given.number("i")
    address = given.text("b")
    if not address:
        (_, address), *_ = await session.holders(topic)
    number, count = given.number("q"), given.number("c", 10)
    found = await session.admin.messages.queue_entries(address, topic, number, index, count, given.text("g"))
    if found.subscription_data is not None:
        session.line("Subscription data: \n%s\n%s", json_text(found.subscription_data), RULE)
    if found.filter_data is not None:
        session.line("Filter data: \n%s\n%s", found.filter_data, RULE)
    session.line("Queue data: \nmax: %d, min: %d\n%s", found.max_queue_index, found.min_queue_index, RULE)
    for number, each in enumerate(found.queue_data or [], index):
        session.line(
            "idx: %d\nConsumeQueueData{physicOffset=%d, physicSize=%d, tagsCode=%d, extendDataJson='%s', bitMap='%s', "
            "eval=%s, msg='%s'}\n%s",
            number, each.physic_offset, each.physic_size, each.tags_code, each.extend_data_json, each.bit_map,
            each.eval, each.msg, RULE,
        )  # fmt: skip


TIME_HELP: Final = "timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"
TOPIC: Final = VerbOption("t", "topic", "topic name", required=True)
CHOICE: Final = (
    VerbOption("c", "charsetName", "CharsetName(eg: UTF-8,GBK)"),
    VerbOption("s", "subExpression", "Subscribe Expression(eg: TagA || TagB)"),
    VerbOption("b", "beginTimestamp", f"Begin {TIME_HELP}"),
    VerbOption("e", "endTimestamp", f"End {TIME_HELP}"),
)
VERBS: Final = (
    Verb("printMsg", "Print Message Detail.",
         (TOPIC, *CHOICE, VerbOption("d", "printBody", "print body"),
          VerbOption("l", "lmqParentTopic", "Lmq parent topic, lmq is used to find the route.",
                 why_not="light queues are not offered; leave it away, and give an ordinary topic to -t")),
         print_msg),
    Verb("printMsgByQueue", "Print Message Detail by queueId.",
         (TOPIC, VerbOption("a", "brokerName", "broker name", required=True),
          VerbOption("i", "queueId", "queue id", required=True), *CHOICE,
          VerbOption("p", "print msg", "print msg. eg: true | false(default)"),
          VerbOption("d", "printBody", "print body. eg: true | false(default)"),
          VerbOption("f", "calculate", "calculate by tag. eg: true | false(default)")),
         print_msg_by_queue),
    Verb("consumeMessage", "Consume message.",
         (VerbOption("t", "topic", "Topic name", required=True), VerbOption("b", "brokerName", "Broker name"),
          VerbOption("i", "queueId", "Queue Id"), VerbOption("o", "offset", "Queue offset"),
          VerbOption("g", "consumerGroup", "Consumer group name"),
          VerbOption("s", "beginTimestamp", f"Begin {TIME_HELP}"), VerbOption("e", "endTimestamp", f"End {TIME_HELP}"),
          VerbOption("c", "MessageNumber", "Number of message to be consumed")),
         consume_message),
    Verb("queryCq", "Query cq command.",
         (TOPIC, VerbOption("q", "queue", "queue num, ie. 1", required=True),
          VerbOption("i", "index", "start queue index.", required=True), VerbOption("c", "count", "how many."),
          VerbOption("b", "broker", "broker addr."), VerbOption("g", "consumer", "consumer group.")),
         query_cq),
)  # fmt: skip
