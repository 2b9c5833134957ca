"""The cluster that both name servers serve, as ready frames.

Every topic is on 8 brokers with 8 queues, every broker has the same number of topics, and one more topic is on all
brokers. A broker's registration is its whole table, as a 5.x broker sends it every 30 seconds.
"""

import json
import struct
from dataclasses import dataclass

BROKERS_A_TOPIC = 8
QUEUES = 8
EVERYWHERE = "TopicOnEveryBroker"
REGISTER, ROUTE = 103, 105
VERSION = 513


@dataclass(frozen=True)
class Shape:
    """The size of the cluster."""

    brokers: int = 1000
    topics: int = 10_000

    def topics_of(self, broker: int) -> list[str]:
        """The topics of one broker: topic t is on the brokers 8t, 8t + 1, ... 8t + 7, counted around."""
        mine = [
            topic_name(topic)
            for offset in range(BROKERS_A_TOPIC)
            for topic in self._starting_at((broker - offset) % self.brokers)
        ]
        return [*mine, EVERYWHERE]

    def _starting_at(self, broker: int) -> range:
        if broker % BROKERS_A_TOPIC:
            return range(0)
        return range(broker // BROKERS_A_TOPIC, self.topics, self.brokers // BROKERS_A_TOPIC)

    def registration(self, broker: int, edition: int) -> bytes:
        """The frame with which a broker registers."""
        address = f"10.{broker // 250}.{broker % 250}.7:10911"
        ext = {
            "brokerName": f"broker-{broker:04}",
            "brokerAddr": address,
            "clusterName": f"Cluster{broker % 10}",
            "haServerAddr": address + "2",
            "brokerId": "0",
            "compressed": "false",
            "bodyCrc32": "0",
            "enableActingMaster": "false",
        }
        return frame(REGISTER, ext, self._table(broker, edition))

    def _table(self, broker: int, edition: int) -> bytes:
        version = {"counter": edition, "stateVersion": 0, "timestamp": 1_700_000_000_000 + broker}
        topics = {
            topic: {
                "attributes": {},
                "order": False,
                "perm": 6,
                "readQueueNums": QUEUES,
                "topicFilterType": "SINGLE_TAG",
                "topicName": topic,
                "topicSysFlag": 0,
                "writeQueueNums": QUEUES,
            }
            for topic in self.topics_of(broker)
        }
        wrapper = {
            "dataVersion": version,
            "mappingDataVersion": version,
            "topicConfigTable": topics,
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
        return json.dumps(body, separators=(",", ":")).encode()


def topic_name(number: int) -> str:
    """A topic's name, about as long as they are in life."""
    return f"order-service-topic-{number:05}"


def lookup(topic: str) -> bytes:
    """The frame with which a client asks for a route."""
    return frame(ROUTE, {"topic": topic}, b"")


def frame(code: int, ext: dict[str, str], body: bytes) -> bytes:
    """A request as the Java client writes it. The opaque is the same in all: each connection waits for its answer."""
    members = {
        "code": code,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
    header = json.dumps(members, separators=(",", ":")).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body
