"""Scripts of requests for every name server, and the answers that differ on purpose.

A ``Step`` may say that a version of Apache's answers otherwise, by the name of a reason in
docs/reference/name-server-differences.md. The test insists on the difference, so that the list stays true.
"""

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from tests.interop.nameserver.raw import COMPACT, JSON

NEW, OLD = "5.5.0", "4.9.7"

REASONS = {
    "missing-field": "A request without a required field is refused with code 1.",
    "malformed-field": "A field that is not of its type is refused with code 1.",
    "unknown-code-4.9": "4.9 does not answer codes it does not know.",
    "faq-link": "The remark of TOPIC_NOT_EXIST has no link to Apache's questions and answers.",
    "no-trace": "A refused registration leaves no trace.",
    "first-single-topic-4.9": "4.9 lets a stranger register a single topic.",
    "data-version-body-4.9": "4.9 fails on a data version query without a body.",
    "text-without-value": "A text without a value is refused.",
    "settings-listed": "Only settings that have an effect here are listed.",
    "settings-allowed": "Only settings of an allow-list can be changed.",
    "settings-checked": "A value that cannot be read is refused.",
    "unregister-4.9": "4.9 removes the id that a broker names, not the address.",
    "zones-4.9": "4.9 knows no zones.",
    "slave-topics-4.9": "4.9 never takes topics from a slave.",
    "one-name-an-address": "An address belongs to one broker name, the newest.",
    "unknown-name": "Unregistering under a name that does not hold the address changes nothing.",
    "partial-topic": "Queues for a topic are added all or not at all.",
    "config-path-remark-4.9": "4.9 words the refusal of a black-listed setting otherwise.",
    "slave-takes-over": "A slave that takes over announces its table anew.",
    "state-version-4.9": "4.9 knows no state version.",
    "static-topics-4.9": "4.9 knows no static topics.",
    "compressed-4.9": "4.9 cannot read what 5.x compresses.",
    "deleted-topic-4.9": "In 4.9 a deleted topic comes back only with a new edition.",
}


@dataclass(frozen=True)
class Step:
    """One request. ``remark`` compares the remark too; ``settles`` lets the answer come true after a while."""

    label: str
    code: int
    ext: dict[str, Any] | None = field(default_factory=dict)
    body: bytes = b""
    version: int = 513
    encoding: int = JSON
    remark: bool = False
    settles: bool = False
    wire: int = 0
    differs: dict[str, str] = field(default_factory=dict)


def broker(
    name: str = "b-a", address: str = "1.1.1.1:1", cluster: str = "C1", broker_id: object = 0, **more: Any
) -> dict[str, Any]:
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": cluster, "brokerId": str(broker_id)}
    return {**fields, "haServerAddr": address + "1", **more}


def table(*topics: str, counter: int = 1, state: int = 0, filters: list[str] | None = None, **config: Any) -> bytes:
    plain = {"order": False, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4, "topicSysFlag": 0}
    wrapper: dict[str, Any] = {
        "dataVersion": {"counter": counter, "stateVersion": state, "timestamp": 1_700_000_000_000},
        "topicConfigTable": {
            topic: {**plain, "topicFilterType": "SINGLE_TAG", "topicName": topic, **config} for topic in topics
        },
    }
    return json.dumps({"filterServerList": filters or [], "topicConfigSerializeWrapper": wrapper}).encode()


def compressed(*topics: str, mapping: dict[str, Any] | None = None, with_mappings: bool = True) -> bytes:
    def block(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    parts = [block(b'{"counter":3,"stateVersion":0,"timestamp":5}'), len(topics).to_bytes(4, "big")]
    attributes = " {}" if with_mappings else ""
    parts += [block(f"{topic} 8 4 6 SINGLE_TAG{attributes}".encode()) for topic in topics]
    parts.append(block(b"[]"))
    if with_mappings:
        infos = [block(json.dumps(mapping).encode())] if mapping else []
        parts += [len(infos).to_bytes(4, "big"), *infos]
    return zlib.compress(b"".join(parts), 9)


def route(topic: str, label: str = "", **how: Any) -> Step:
    return Step(label or f"route of {topic}", 105, {"topic": topic}, **how)


def absent(topic: str, label: str = "", **how: Any) -> Step:
    both = {NEW: "faq-link", OLD: "faq-link"}
    return Step(label or f"no route of {topic}", 105, {"topic": topic}, remark=True, differs=both, **how)


def version_of(counter: int) -> bytes:
    return json.dumps({"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000}).encode()


MAPPING = {
    "topic": "T",
    "bname": "b-a",
    "totalQueues": 2,
    "epoch": 7,
    "currIdMap": {"0": 0, "1": 1},
    "dirty": False,
    "scope": "__global__",
}
PARTIAL = json.dumps(
    {
        "queueDatas": [
            {"brokerName": name, "perm": 6, "readQueueNums": 3, "writeQueueNums": 3, "topicSysFlag": 0}
            for name in ("b-a", "nobody")
        ]
    }
).encode()

SLAVE = broker(address="1.1.1.1:5", broker_id=1, enableActingMaster="false")

CLUSTERS = Step("clusters", 106, settles=True)
TOPICS = Step("all topics", 206, settles=True)
MISSING = {NEW: "missing-field", OLD: "missing-field"}
MISSING_IN_NEW = {NEW: "missing-field", OLD: "unknown-code-4.9"}
UNKNOWN_IN_OLD = {OLD: "unknown-code-4.9"}

SCRIPTS: dict[str, list[Step]] = {
    "registration": [
        Step("empty", 106),
        Step("master", 103, broker(), table("T", "U")),
        Step("slave hears of its master", 103, broker(address="1.1.1.1:5", broker_id=1), table("T", "U")),
        Step("second broker", 103, broker("b-b", "1.1.1.2:1"), table("T", "V", perm=4)),
        Step("second cluster", 103, broker("b-c", "1.1.1.3:1", "C2"), table("T", "W", readQueueNums=8)),
        route("T"),
        route("U"),
        route("T", "route for an old client", version=400),
        route("T", "route in a compact header", encoding=COMPACT),
        Step("route as standard JSON", 105, {"topic": "T", "acceptStandardJsonOnly": "true"}, version=0),
        absent("nothing"),
        CLUSTERS,
        TOPICS,
        Step("topics of a cluster", 224, {"cluster": "C1"}),
        Step("topics of no cluster", 224, {"cluster": "nowhere"}),
        Step("members", 901, {"clusterName": "C1", "brokerName": "b-a"}, remark=True, differs=UNKNOWN_IN_OLD),
        Step("members of nobody", 901, {"clusterName": "C1", "brokerName": "x"}, differs=UNKNOWN_IN_OLD),
        Step("new edition overwrites", 103, broker(), table("T", "U", counter=2, readQueueNums=16)),
        route("T", "route of the new edition"),
        Step("fewer topics remove none", 103, broker(), table("U", "X", counter=3)),
        TOPICS,
    ],
    "system topics": [
        Step("none", 304),
        Step("one broker", 103, broker(), table("T", "U")),
        Step("cluster and broker", 304),
    ],
    "units": [
        Step("plain", 103, broker("b-a", "1.1.1.1:1"), table("P1", "P2")),
        Step("unit", 103, broker("b-b", "1.1.1.2:1"), table("U1", "U2", topicSysFlag=1)),
        Step("sub", 103, broker("b-c", "1.1.1.3:1"), table("S1", "S2", topicSysFlag=2)),
        Step("both", 103, broker("b-d", "1.1.1.4:1"), table("B1", "B2", topicSysFlag=3)),
        Step("unit topics", 311),
        Step("subscribed from a unit", 312),
        Step("subscribed from a unit, in none", 313),
    ],
    "single topics": [
        Step(
            "a stranger's single topic", 103, broker(), table("T"), remark=True, differs={OLD: "first-single-topic-4.9"}
        ),
        Step("no trace of it", 106, differs={NEW: "no-trace", OLD: "first-single-topic-4.9"}),
        Step("whole table", 103, broker(), table("T", "U", counter=2)),
        Step("single topic afterwards", 103, broker(), table("V", counter=3)),
        Step("no topics at all", 103, broker("b-b", "1.1.1.2:1"), table()),
        Step("no body", 103, broker("b-c", "1.1.1.3:1")),
        TOPICS,
        CLUSTERS,
    ],
    "leaving": [
        Step("master", 103, broker(), table("T", "U")),
        Step("slave", 103, broker(address="1.1.1.1:5", broker_id=1), table("T", "U")),
        Step("second broker", 103, broker("b-b", "1.1.1.2:1"), table("T", "V")),
        Step("master leaves", 104, broker()),
        CLUSTERS,
        route("T"),
        Step("slave leaves", 104, broker(address="1.1.1.1:5", broker_id=1)),
        CLUSTERS,
        TOPICS,
        route("T", "route of the rest"),
        Step("stranger leaves", 104, broker("b-x", "9.9.9.9:9")),
        CLUSTERS,
    ],
    "addresses": [
        Step("slave", 103, broker(broker_id=1), table("T", "U")),
        Step("the same address as master", 103, broker(broker_id=0), table("T", "U", counter=2)),
        Step("one id an address", 106),
        Step("newer state elsewhere", 103, broker(address="2.2.2.2:2"), table("T", "U", counter=3, state=5)),
        Step("the id moved", 106),
        Step("older state", 103, broker(), table("T", "U", counter=4, state=4)),
        Step("the id stays", 106, differs={OLD: "state-version-4.9"}),
    ],
    "slaves": [
        Step("slave without master", 103, broker(broker_id=1, enableActingMaster="false"), table("T", "U")),
        route("T", "a slave's topics", differs={OLD: "slave-topics-4.9"}),
        Step("old slave", 103, broker("b-b", "1.1.1.2:1", broker_id=1), table("V", "W")),
        absent("V", "an old slave's topics"),
        Step("acting", 103, broker("b-c", "1.1.1.3:1", broker_id=1, enableActingMaster="true"), table("X", "Y")),
        route("X", "an acting master's topics", differs={OLD: "slave-topics-4.9"}),
    ],
    "a slave takes over": [
        Step("master", 103, broker(), table("T", "U")),
        Step("slave", 103, SLAVE, table("T", "U", counter=2, readQueueNums=8)),
        Step("master leaves", 104, broker()),
        CLUSTERS,
        Step("slave again", 103, SLAVE, table("T", "U", counter=2, readQueueNums=8)),
        route("T", differs={NEW: "slave-takes-over", OLD: "slave-topics-4.9"}),
    ],
    "permissions": [
        Step("master", 103, broker(), table("T", "U")),
        Step("wipe", 205, {"brokerName": "b-a"}),
        route("T", "wiped"),
        Step("the same edition", 103, broker(), table("T", "U")),
        route("T", "still wiped"),
        Step("add", 327, {"brokerName": "b-a"}),
        route("T", "added"),
        Step("wipe nobody", 205, {"brokerName": "nobody"}),
        Step("add nobody", 327, {"brokerName": "nobody"}),
        Step("wipe again", 205, {"brokerName": "b-a"}),
        Step("a new edition", 103, broker(), table("T", "U", counter=2)),
        route("T", "rewritten"),
    ],
    "topics by hand": [
        Step("first", 103, broker(), table("T", "U")),
        Step("second", 103, broker("b-b", "1.1.1.2:1", "C2"), table("T", "V")),
        Step("delete nowhere", 216, {"topic": "T", "clusterName": "nowhere"}),
        Step("delete in a cluster", 216, {"topic": "T", "clusterName": "C1"}),
        route("T", "the other cluster's"),
        Step("delete everywhere", 216, {"topic": "T"}),
        absent("T"),
        Step("the same edition again", 103, broker(), table("T", "U")),
        route("T", "back", differs={OLD: "deleted-topic-4.9"}),
        Step(
            "add",
            217,
            {"topic": "N"},
            b'{"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":3,"writeQueueNums":3,"topicSysFlag":0}]}',
            differs=UNKNOWN_IN_OLD,
        ),
        route("N", "added", differs=UNKNOWN_IN_OLD),
        Step(
            "add at a stranger",
            217,
            {"topic": "M"},
            b'{"queueDatas":[{"brokerName":"x","perm":6}]}',
            differs=UNKNOWN_IN_OLD,
        ),
        absent("M"),
        Step("add nothing", 217, {"topic": "M"}, differs=UNKNOWN_IN_OLD),
    ],
    "signs of life": [
        Step("stranger asks", 322, broker(), version_of(1)),
        Step("master", 103, broker(), table("T", "U")),
        Step("the same edition", 322, broker(), version_of(1)),
        Step("another edition", 322, broker(), version_of(2)),
        Step("no edition", 322, broker(), differs={OLD: "data-version-body-4.9"}),
        Step("heartbeat", 904, broker(), differs=UNKNOWN_IN_OLD),
        Step("stranger's heartbeat", 904, broker("x", "9.9.9.9:9"), differs=UNKNOWN_IN_OLD),
    ],
    "texts": [
        Step("nothing yet", 101, {"namespace": "NS", "key": "k"}, remark=True),
        Step("no namespace yet", 219, {"namespace": "NS"}, remark=True),
        Step("put", 100, {"namespace": "NS", "key": "k", "value": "v"}),
        Step("get", 101, {"namespace": "NS", "key": "k"}),
        Step("put another", 100, {"namespace": "NS", "key": "l", "value": "\u00fc=1;2"}),
        Step("list", 219, {"namespace": "NS"}),
        Step("delete", 102, {"namespace": "NS", "key": "k"}),
        Step("delete again", 102, {"namespace": "NS", "key": "k"}),
        Step("delete the other", 102, {"namespace": "NS", "key": "l"}),
        Step("an empty namespace stays", 219, {"namespace": "NS"}),
        Step("order configuration", 100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b-a:4"}),
        Step("brokers get it", 103, broker(), table("T", "U")),
        route("T", "routes do not"),
        Step("order it is", 318, {}, b"orderMessageEnable=true"),
        route("T", "routes do now"),
        route("U", "other topics have none"),
        Step("order no more", 318, {}, b"orderMessageEnable=false"),
        Step("delete the order", 102, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}),
        Step("brokers get the empty one", 103, broker(), table("T", "U")),
    ],
    "settings": [
        Step("list", 319, differs={NEW: "settings-listed", OLD: "settings-listed"}),
        Step("black list", 318, {}, b"kvConfigPath=/tmp/x", remark=True, differs={OLD: "config-path-remark-4.9"}),
        Step("black list among others", 318, {}, b"orderMessageEnable=true\nconfigStorePath=/tmp/x"),
        Step("home", 318, {}, b"rocketmqHome=/tmp/x", differs={OLD: "settings-allowed"}),
        Step("not on the list", 318, {}, b"listenPort=1", differs={NEW: "settings-allowed", OLD: "settings-allowed"}),
        Step("unknown", 318, {}, b"noSuchKey=1", differs={NEW: "settings-allowed", OLD: "settings-allowed"}),
        Step(
            "not a number",
            318,
            {},
            b"waitSecondsForService=x",
            differs={NEW: "settings-checked", OLD: "settings-allowed"},
        ),
        Step("nothing", 318, {}),
    ],
    "compressed registrations of 4.x": [
        Step("register", 103, broker(compressed="true"), compressed("T", "V", with_mappings=False), version=409),
        route("T"),
        absent("U"),
    ],
    "compressed registrations of 5.x": [
        Step("register", 103, broker(compressed="true"), compressed("T", "U"), differs={OLD: "compressed-4.9"}),
        route("T", differs={OLD: "compressed-4.9"}),
    ],
    "static topics": [
        Step(
            "with a mapping",
            103,
            broker(compressed="true"),
            compressed("T", "U", mapping=MAPPING),
            differs={OLD: "static-topics-4.9"},
        ),
        route("T", differs={OLD: "static-topics-4.9"}),
        route("U", differs={OLD: "static-topics-4.9"}),
        route("T", "for an old client", version=400, differs={OLD: "static-topics-4.9"}),
    ],
    "one process an address": [
        Step("old name", 103, broker("b-old"), table("T", "U")),
        Step("new name", 103, broker("b-new"), table("T", "U")),
        Step("both", 106, differs={NEW: "one-name-an-address", OLD: "one-name-an-address"}),
    ],
    "leaving by mistake": [
        Step("broker", 103, broker(), table("T", "U")),
        Step("at another address", 104, broker(address="9.9.9.9:9")),
        Step("it stays", 106, settles=True, differs={OLD: "unregister-4.9"}),
        Step("broker again", 103, broker(), table("T", "U")),
        Step("under another name", 104, broker("b-x")),
        Step(
            "it is alive",
            322,
            broker(),
            version_of(1),
            settles=True,
            differs={NEW: "unknown-name", OLD: "unknown-name"},
        ),
    ],
    "queues of one topic": [
        Step("broker", 103, broker(), table("T", "U")),
        Step("one known, one not", 217, {"topic": "T"}, PARTIAL, differs=UNKNOWN_IN_OLD),
        route("T", differs={NEW: "partial-topic"}),
    ],
    "zones": [
        Step("near", 103, broker("b-a", "1.1.1.1:1", __ZONE_NAME="z1"), table("T", "U")),
        Step("far", 103, broker("b-b", "1.1.1.2:1", __ZONE_NAME="z2"), table("T", "V")),
        Step("nowhere", 103, broker("b-c", "1.1.1.3:1"), table("T", "W")),
        route("T", "everybody"),
        Step("mine", 105, {"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": "Z1"}, differs={OLD: "zones-4.9"}),
        Step("not in zone mode", 105, {"topic": "T", "__ZONE_NAME": "z1"}),
        Step("no zone", 105, {"topic": "T", "__ZONE_MODE": "true", "__ZONE_NAME": " "}),
    ],
    "filter servers": [
        Step("with", 103, broker(), table("T", "U", filters=["1.1.1.1:99"])),
        Step("without", 103, broker("b-b", "1.1.1.2:1"), table("T", "V")),
        route("T"),
    ],
    "connections": [
        Step("first", 103, broker(), table("T", "U"), wire=1),
        Step("second", 103, broker("b-b", "1.1.1.2:1"), table("T", "V"), wire=2),
        route("T", "both"),
        Step("hang up", 0, wire=1),
        CLUSTERS,
        route("T", "the other"),
    ],
    "hostile": [
        Step("crc mismatch", 103, broker(bodyCrc32="1"), table("T", "U"), remark=True),
        Step("garbage body", 103, broker(), b"garbage"),
        Step("garbage compressed", 103, broker(compressed="true"), b"garbage"),
        Step("truncated compressed", 103, broker(compressed="true"), compressed("T", "U")[:-9]),
        Step("no route of it", 106),
        Step("unknown code", 999, remark=True, differs=UNKNOWN_IN_OLD),
        Step("a broker's code", 34, remark=True, differs=UNKNOWN_IN_OLD),
        Step("unknown code, compact", 999, encoding=COMPACT, differs=UNKNOWN_IN_OLD),
        Step("route without fields", 105, None, differs=MISSING),
        Step("route without topic", 105, {}, differs=MISSING),
        Step("text without key", 100, {"namespace": "N"}),
        Step(
            "text without value",
            100,
            {"namespace": "N", "key": "k"},
            differs={NEW: "text-without-value", OLD: "text-without-value"},
        ),
        Step("get without key", 101, {}, differs=MISSING),
        Step("delete without key", 102, {}, differs=MISSING),
        Step("list without namespace", 219, {}, differs=MISSING),
        Step("wipe without broker", 205, {}, differs=MISSING),
        Step("add without broker", 327, {}, differs=MISSING),
        Step("delete without topic", 216, {}, differs=MISSING),
        Step("cluster topics without cluster", 224, {}, differs=MISSING),
        Step("members without names", 901, {}, differs=MISSING_IN_NEW),
        Step("heartbeat without names", 904, {}, differs=UNKNOWN_IN_OLD),
        Step("add topic without topic", 217, {}, differs=MISSING_IN_NEW),
        Step("data version without names", 322, {}, version_of(1), differs={OLD: "missing-field"}),
        Step("garbage data version", 322, broker(), b"garbage"),
        Step("numbers in place of texts", 103, {**broker(), "brokerId": 0, "compressed": False}, table("T", "U")),
        route("T", "they count"),
        Step("an id that is no number", 103, broker("b-x", "8.8.8.8:8", broker_id="zero"), table("T", "U")),
        Step(
            "a timeout that is no number",
            103,
            broker("b-y", "8.8.8.8:9", heartbeatTimeoutMillis="long"),
            table("T", "U"),
            differs={NEW: "malformed-field", OLD: "malformed-field"},
        ),
        Step("no trace of it", 106, differs={NEW: "malformed-field", OLD: "malformed-field"}),
    ],
}
