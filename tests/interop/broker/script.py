"""Requests that a broker must answer as Apache's does, in order: later ones see what earlier ones left behind."""

import json
import struct
from typing import Any, NamedTuple

UNIQUE = "UNIQ_KEY\x01AC11000100002A\x02"
SHORT: dict[str, Any] = {
    "a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": UNIQUE,
    "j": "0", "k": "false", "m": "false",
}  # fmt: skip
EVER = {"beginTimestamp": "0", "endTimestamp": "9999999999999"}


class Step(NamedTuple):
    """One request: what it is about, its code, fields and body."""

    what: str
    code: int
    ext: dict[str, Any] | None = None
    body: bytes = b""
    body_matters: bool = True
    """Whether the answer's body must be equal too."""
    version: int = 513


LATER = "2"
"""The queue of what is delivered later: it moves no offset of a queue that other steps are answered with."""


def a_send(what: str, body: bytes = b"hello", **changes: Any) -> Step:
    """A send by short names; None takes a field away."""
    ext = {**SHORT, **changes}
    return Step(what, 310, {key: value for key, value in ext.items() if value is not None}, body)


def a_long_send(what: str, body: bytes = b"hello", **changes: Any) -> Step:
    """A send by full names."""
    ext: dict[str, Any] = {
        "producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": UNIQUE, "reconsumeTimes": "0",
        "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return Step(what, 10, {**ext, **changes}, body)


def a_batch(*messages: tuple[bytes, bytes]) -> bytes:
    """The body of a batch: bodies and properties."""
    parts = []
    for body, properties in messages:
        head = struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, 0, len(body))
        parts.append(head + body + struct.pack(">h", len(properties)) + properties)
    return b"".join(parts)


def a_topic(what: str, **changes: Any) -> Step:
    """Make or change a topic."""
    ext: dict[str, Any] = {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    return Step(what, 17, {**ext, **changes})


def topic_list(*names: str) -> bytes:
    """The body of a request for several topics."""
    return json.dumps({"topicConfigList": [{"topicName": name, "readQueueNums": 2} for name in names]}).encode()


SENDS = [
    a_send("first message of a topic"),
    a_send("second message"),
    a_send("another queue", e="3"),
    a_send("queue too high", e="4"),
    a_send("queue far too high", e="99"),
    a_send("numbers as numbers", e=1, f=0, g=1700000000000),
    a_send("flag and reconsume times", h="7", j="2"),
    a_send("no properties", i=None),
    a_send("properties without an end", i="TAGS\x01A"),
    a_send("wait is false", i=UNIQUE + "WAIT\x01false\x02"),
    a_send("empty body", b""),
    a_send("illegal topic", b="a b"),
    a_send("blank topic", b=" "),
    a_send("long topic", b="t" * 128),
    a_send("long retry topic", b="%RETRY%" + "t" * 250),
    a_send("schedule topic", b="SCHEDULE_TOPIC_XXXX"),
    a_send("half topic", b="RMQ_SYS_TRANS_HALF_TOPIC"),
    a_send("self test topic", b="SELF_TEST_TOPIC"),
    a_send("topic of traces", b="RMQ_SYS_TRACE_TOPIC"),
    a_send("model that is not there", b="fresh1", c="nobody"),
    a_send("model that lends nothing", b="fresh2", c="BenchmarkTest"),
    a_send("model with the cluster's name", b="fresh3", c="DefaultCluster", d="3"),
    a_send("no queues wanted", b="fresh4", d="0"),
    a_send("prepared", i=UNIQUE + "TRAN_MSG\x01true\x02"),
    a_send("prepared with capitals", i=UNIQUE + "TRAN_MSG\x01TRUE\x02"),
    a_send("not prepared", i=UNIQUE + "TRAN_MSG\x01false\x02"),
    a_send("timer in seconds", e=LATER, i=UNIQUE + "TIMER_DELAY_SEC\x015\x02"),
    a_send("timer in milliseconds", e=LATER, i=UNIQUE + "TIMER_DELAY_MS\x01500\x02"),
    a_send("timer at a time", e=LATER, i=UNIQUE + "TIMER_DELIVER_MS\x0199999999999999\x02"),
    a_send("timer out", e=LATER, i=UNIQUE + "TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x015\x02"),
    a_send("inner batch", f="128"),
    a_send("inner number", i=UNIQUE + "INNER_NUM\x015\x02"),
    a_send("compressed", f="769"),
    a_send("commit bits", f="8"),
    a_send("large body", b"x" * (4 * 1024 * 1024 + 1)),
    a_send("body at the limit", b"x" * (4 * 1024 * 1024)),
    a_send("large properties", i=UNIQUE + "k\x01" + "v" * 32_767),
    a_send("properties at the limit", i=UNIQUE + "k\x01" + "v" * 32_600 + "\x02"),
    a_send("own pop mark", i=UNIQUE + "POP_CK\x01mine\x02"),
    a_send("delayed", e=LATER, i=UNIQUE + "DELAY\x013\x02"),
    a_send("delayed again", e=LATER, i=UNIQUE + "DELAY\x013\x02"),
    a_send("delayed beyond the last level", e=LATER, i=UNIQUE + "DELAY\x0199\x02"),
    a_send("delayed by nothing", i=UNIQUE + "DELAY\x010\x02"),
    a_send("delayed backwards", i=UNIQUE + "DELAY\x01-1\x02"),
    a_send("retry of a group", b="%RETRY%g", j="1", l="3"),
    a_send("retry once too often", b="%RETRY%g", j="4", l="3"),
    a_send("retry without limit in the request", b="%RETRY%g2", j="17"),
    a_long_send("full names"),
    a_long_send("full names, queue too high", queueId="9"),
    Step(
        "batch", 320, {**SHORT, "m": "true", "i": "WAIT\x01true\x02"}, a_batch((b"1", b""), (b"2", b"TAGS\x01A\x02"))
    ),
    Step("batch by the header", 310, {**SHORT, "m": "true", "i": ""}, a_batch((b"1", b""))),
    Step("batch to a retry topic", 320, {**SHORT, "m": "true", "b": "%RETRY%g"}, a_batch((b"1", b""))),
    Step("batch with delay", 320, {**SHORT, "m": "true", "i": "DELAY\x013\x02"}, a_batch((b"1", b""))),
    Step("batch prepared", 320, {**SHORT, "m": "true", "f": "4"}, a_batch((b"1", b""))),
    Step("recall", 370, {"topic": "T", "recallHandle": "x", "producerGroup": "P"}),
]  # fmt: skip

NOT_OFFERED = [
    a_topic(f"type {kind}", topic=f"of{kind}", attributes=f"+message.type={kind}") for kind in ("PRIORITY", "LITE")
]
"""Types of messages that Apache's broker has and ours refuses."""

TOPICS = [
    a_topic("a topic"),
    a_topic("the same again"),
    a_topic("other queues", readQueueNums="8", writeQueueNums="2"),
    a_topic("with attributes", topic="typed", attributes="+message.type=FIFO"),
    a_topic("attribute changed", topic="typed", attributes="+message.type=NORMAL"),
    a_topic("attribute removed", topic="typed", attributes="-message.type"),
    a_topic("attribute that is not there", topic="typed", attributes="-message.type"),
    a_topic("attribute that nobody knows", topic="typed2", attributes="+colour=red"),
    a_topic("attribute with a wrong value", topic="typed2", attributes="+message.type=RED"),
    a_topic("attribute without a sign", topic="typed2", attributes="message.type=FIFO"),
    a_topic("mixed", topic="typed2", attributes="+message.type=MIXED"),
    *(
        a_topic(f"type {kind}", topic=f"of{kind}", attributes=f"+message.type={kind}")
        for kind in ("NORMAL", "UNSPECIFIED", "FIFO", "DELAY", "TRANSACTION")
    ),
    a_topic("reserve time", topic="typed2", attributes="+reserve.time=3"),
    a_topic("illegal name", topic="a b"),
    a_topic("blank name", topic=""),
    a_topic("system topic", topic="TBW102"),
    a_topic("topic of the cluster", topic="DefaultCluster"),
    a_topic("topic with a system prefix", topic="rmq_sys_mine"),
    Step("several topics", 18, body=topic_list("t1", "t2")),
    Step("several topics, one illegal", 18, body=topic_list("t3", "a b")),
    Step("a topic's settings", 351, {"topic": "orders"}),
    Step("settings of a topic that is not there", 351, {"topic": "nobody"}),
    Step("all topics, a page", 21, {"topicSeq": "0", "maxTopicNum": "1", "dataVersion": ""}, body_matters=False),
    Step("statistics of a topic that is not there", 202, {"topic": "nobody"}),
    Step("statistics of an empty topic", 202, {"topic": "orders"}),
    Step("groups of a topic", 300, {"topic": "orders"}),
    Step("message at a wrong place", 33, {"offset": "99999999"}),
    Step("messages by a key that is not there", 12, {"topic": "T", "key": "no", "maxNum": "3", **EVER}),
    Step("entries of a queue of no topic", 321, {"topic": "nobody", "queueId": "0", "index": "0", "count": "2"}),
    Step("entries behind the end", 321, {"topic": "T", "queueId": "0", "index": "99999", "count": "2"}),
    Step("statistic that is not there", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "nobody"}),
    Step("statistic of no kind", 315, {"statsName": "NOBODY", "statsKey": "nobody"}),
    Step("black list", 25, body=b"configBlackList=x"),
    Step("path of the settings", 25, body=b"brokerConfigPath=x"),
    Step("a setting", 25, body=b"autoCreateTopicEnable=true"),
    Step("a setting that nobody knows", 25, body=b"nobody=1"),
    Step("system topic deleted", 215, {"topic": "TBW102"}),
    Step("blank topic deleted", 215, {"topic": ""}),
    Step("topic deleted", 215, {"topic": "orders"}),
    Step("topic deleted that is not there", 215, {"topic": "orders"}),
    Step("upkeep of queues", 306),
    Step("upkeep of topics", 316),
    Step("upkeep of the log", 329),
    Step("code that nobody serves", 9999),
]  # fmt: skip
