"""``sendMessage``, ``sendMsgStatus``, ``checkMsgSendRT``, ``clusterRT``."""

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Final

from firearrow.cli.mqadmin.java_text import java
from firearrow.cli.mqadmin.message.trace_text import written_pub
from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.client import Producer, SendResult
from firearrow.errors import FireArrowError, NoSuchName, SettingsError
from firearrow.model import Message, MessageQueue
from firearrow.model.flags import PERM_WRITE
from firearrow.runtime.clock import SystemClock

SEND_FORM: Final = "%-32s  %-4s  %-20s    %s"
CHINA_S: Final = 8 * 3600


def producing(session: Session, group: str = "") -> Producer[bytes]:
    """Return a producer of the cluster."""
    return Producer(session.name_servers, group=group or str(SystemClock().now_ms()), **session.reach)


def result_text(result: SendResult) -> str:
    """Return the result of a send as ``SendResult.toString`` does."""
    return (
        f"SendResult [sendStatus={result.status}, msgId={result.message_id}, offsetMsgId={result.offset_message_id}, "
        f"messageQueue={java(result.queue)}, queueOffset={result.queue_offset}, "
        f"recallHandle={java(result.recall_handle)}]"
    )


async def send_message(session: Session, given: OptionValues) -> None:
    """Send one message."""
    if given.has("i") and not given.has("b"):
        raise SettingsError("Broker name must be set if the queue is chosen!")
    message = Message(given.text("t"), given.text("p").encode(), tag=given.text("c"), keys=given.text("k"))
    queue = MessageQueue(given.text("t"), given.text("b"), given.number("i")) if given.has("i") else None
    group = str(SystemClock().now_ms())
    async with producing(session, group) as producer:
        ms, result = await _timed(producer, message, queue)
        if isinstance(result, FireArrowError):
            raise result
        if given.truth("m"):
            await _send_trace(session, producer, written_pub(message, result, group, SystemClock().now_ms(), ms))
    session.line(SEND_FORM, "#Broker Name", "#QID", "#Send Result", "#MsgId")
    session.line(SEND_FORM, result.queue.broker_name, result.queue.queue_id, result.status.value, result.message_id)


async def _send_trace(session: Session, producer: Producer[bytes], trace: Message) -> None:
    """Write that a message was sent into the trace topic; the message is sent anyway."""
    try:
        await producer.send(trace)
    except FireArrowError as error:
        session.failed(error)


async def send_msg_status(session: Session, given: OptionValues) -> None:
    """Send messages to the topic of a broker's name, and print how long each takes."""
    topic, size, count = given.text("b"), given.number("s", 128), given.number("c", 50)
    async with producing(session, "PID_SMSC") as producer:
        await producer.send(_padded(topic, 16))
        for _ in range(count):
            ms, result = await _timed(producer, _padded(topic, size))
            if isinstance(result, FireArrowError):
                raise result
            session.line("rt=%sms, SendResult=%s", ms, result_text(result))


def _padded(topic: str, size: int) -> Message:
    return Message(topic, b"hello jodie" * -(-size // 11))


async def _timed(
    producer: Producer[bytes], message: Message, queue: MessageQueue | None = None
) -> tuple[int, SendResult | FireArrowError]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        result: SendResult | FireArrowError = await producer.send(message, queue=queue)
    except FireArrowError as error:
        result = error
    return round((loop.time() - began) * 1000), result


async def check_msg_send_rt(session: Session, given: OptionValues) -> None:
    """Send messages to the queues of a topic in turn, and print how long each takes."""
    topic, amount, size = given.text("t"), given.number("a", 100), given.number("s", 128)
    route = await session.route(topic)
    counts = {data.broker_name or "": data.write_queue_nums for data in route.queue_datas if data.perm & PERM_WRITE}
    queues = sorted(MessageQueue(topic, name, number) for name, count in counts.items() for number in range(count))
    if not queues:
        raise NoSuchName(f"topic {topic!r} has no queue that takes messages; mqadmin topicRoute -t {topic} shows them")
    took = 0
    session.line(SEND_FORM, "#Broker Name", "#QID", "#Send Result", "#RT")
    async with producing(session) as producer:
        for number in range(amount):
            queue = queues[number % len(queues)]
            ms, result = await _timed(producer, Message(topic, b"a" * size), queue)
            took += ms if number else 0
            session.line(SEND_FORM, queue.broker_name, queue.queue_id, isinstance(result, SendResult), ms)
    session.line("Avg RT: %s", f"{took / (amount - 1):.2f}" if amount > 1 else "NaN")


async def cluster_rt(session: Session, given: OptionValues) -> None:
    """Send messages to the topic of every broker's name again and again, and print how long they take."""
    amount, size, as_log = given.number("a", 100), given.number("s", 128), given.truth("p")
    cluster = await session.cluster()
    names = [given.text("c")] if given.has("c") else list(cluster.clusters)
    brokers = [(name, broker) for name in names for broker in cluster.names(name)]
    if not as_log:
        head = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        session.line("%-24s  %-24s  %-4s  %-8s  %-8s", *head)
    async with producing(session) as producer:
        while True:
            for name, broker in brokers:
                sent = [await _timed(producer, Message(broker, b"a" * size)) for _ in range(amount)]
                stored = sum(isinstance(result, SendResult) for _, result in sent)
                mean = sum(ms for ms, _ in sent[1:]) / max(amount - 1, 1)
                if as_log:
                    session.line("%s|%s|%s|%s|%s", _china_time(), given.text("m", "noname"), name, broker, round(mean))
                else:
                    row = (name, broker, f"{mean:.2f}", stored, amount - stored)
                    session.line("%-24s  %-24s  %-8s  %-16s  %-16s", *row)
            await session.pause(given.number("i", 10))


def _china_time() -> str:
    """Return the time in China, in which Apache's tool writes its log."""
    zone = timezone(timedelta(seconds=CHINA_S))
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


SIZE: Final = VerbOption("s", "size", "message size | default 128 Byte")
AMOUNT: Final = VerbOption("a", "amount", "message amount | default 100")
VERBS: Final = (
    Verb("sendMsgStatus", "Send msg to broker.",
         (VerbOption("b", "brokerName", "Broker Name e.g. clusterName_brokerName as DefaultCluster_broker-a",
                 required=True),
          VerbOption("s", "messageSize", "Message Size, Default: 128"),
          VerbOption("c", "count", "send message count, Default: 50")),
         send_msg_status),
    Verb("checkMsgSendRT", "Check message send response time.",
         (VerbOption("t", "topic", "topic name", required=True), AMOUNT, SIZE), check_msg_send_rt),
    Verb("clusterRT", "List All clusters Message Send RT.",
         (AMOUNT, SIZE, VerbOption("c", "cluster", "cluster name | default display all cluster"),
          VerbOption("p", "print log", "print as tlog | default false"),
          VerbOption("m", "machine room", "machine room name | default noname"),
          VerbOption("i", "interval", "print interval | default 10 seconds")),
         cluster_rt),
    Verb("sendMessage", "Send a message.",
         (VerbOption("t", "topic", "Topic name", required=True),
          VerbOption("p", "body", "UTF-8 string format of the message body", required=True),
          VerbOption("k", "key", "Message keys"), VerbOption("c", "tags", "Message tags"),
          VerbOption("b", "broker", "Send message to target broker"),
          VerbOption("i", "qid", "Send message to target queue"),
          VerbOption("m", "msgTraceEnable", "Message Trace Enable, Default: false")),
         send_message),
)  # fmt: skip
