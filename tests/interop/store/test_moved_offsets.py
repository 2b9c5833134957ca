"""Our broker stops with offsets that an operator moved, which its offset file has in a member unknown to Apache's.

Apache's broker serves those offsets, takes commits and writes the file anew; our broker opens it again.
"""

import json
from pathlib import Path

import pytest

from firearrow.broker.tables.offset_rows import PATH
from firearrow.fastjson import decode
from firearrow.protocol.bodies.group.offset import ConsumerOffsetTable
from judges import ApacheBroker, FireArrowBroker, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.servers import make_topic
from judges.shared import SharedServers
from judges.wire import QUERY_CONSUMER_OFFSET, SUCCESS, Answer, ask
from tests.interop.store.sizes import SECONDS

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

SEND, COMMIT, UPDATE_GROUP, MOVE_GROUP = 10, 15, 200, 222
MESSAGES, COMMITTED, MOVED_TO, COMMITTED_AT_APACHE, COMMITTED_LAST = 6, 4, 1, 3, 5
MEMBER = b"firearrowMoved"
TIMEOUT_S = 30.0


class Offsets:
    """The offsets of one group in the two queues of one topic, asked and changed at a broker."""

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group

    def send(self, address: str) -> None:
        """Put messages into both queues."""
        for queue_id in (0, 1):
            for _ in range(MESSAGES):
                fields = {
                    "producerGroup": "movers",
                    "topic": self.topic,
                    "defaultTopic": "TBW102",
                    "defaultTopicQueueNums": "2",
                    "queueId": str(queue_id),
                    "sysFlag": "0",
                    "bornTimestamp": "0",
                    "flag": "0",
                }
                asked(address, SEND, fields, b"body")

    def make_group(self, address: str) -> None:
        """Make the group."""
        asked(address, UPDATE_GROUP, {}, json.dumps({"groupName": self.group}).encode())

    def commit(self, address: str, queue_id: int, offset: int) -> None:
        """Commit as a consumer does."""
        asked(address, COMMIT, self._fields(queue_id) | {"commitOffset": str(offset)})

    def move(self, address: str, queue_id: int, offset: int) -> None:
        """Move the group as an operator does."""
        told = {"topic": self.topic, "group": self.group, "queueId": str(queue_id)}
        asked(address, MOVE_GROUP, told | {"offset": str(offset), "timestamp": "0", "isForce": "true"})

    def of(self, address: str) -> list[int]:
        """The offsets of the group, by queue."""
        answers = [asked(address, QUERY_CONSUMER_OFFSET, self._fields(queue_id)) for queue_id in (0, 1)]
        return [int(answer.fields["offset"]) for answer in answers]

    def written(self, store: Path) -> tuple[dict[int, int], bool]:
        """The group's offsets in the file, and whether the file has moved offsets."""
        data = store.joinpath(PATH).read_bytes()
        table = decode(data, ConsumerOffsetTable).offset_table  # Apache's broker writes numbers as keys
        return table[f"{self.topic}@{self.group}"], MEMBER in data

    def _fields(self, queue_id: int) -> dict[str, str]:
        return {"consumerGroup": self.group, "topic": self.topic, "queueId": str(queue_id)}


def asked(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> Answer:
    """The answer to a request, which must say success."""
    answer = ask(address, code, fields, body, TIMEOUT_S)
    assert answer.code == SUCCESS, answer
    return answer


@pytest.mark.parametrize("version", SERVER_VERSIONS)
def test_apache_opens_a_store_with_moved_offsets(shared_servers: SharedServers, version: str) -> None:
    names = [shared_servers.name_server(version).address]
    name, offsets = fresh("moved"), Offsets(fresh("topic"), fresh("group"))
    apache = ApacheBroker(version, name_servers=names, name=name)
    ours = FireArrowBroker(name_servers=names, name=name, settings={"storePathRootDir": str(apache.store)})
    try:
        ours.start()
        make_topic(ours.address, offsets.topic, 2)
        offsets.make_group(ours.address)
        offsets.send(ours.address)
        for queue_id in (0, 1):
            offsets.commit(ours.address, queue_id, COMMITTED)
        offsets.move(ours.address, 0, MOVED_TO)
        ours.stop()
        written, is_moved = offsets.written(apache.store)
        assert is_moved
        assert written == {0: MOVED_TO, 1: COMMITTED}

        apache.start()
        assert offsets.of(apache.address) == [MOVED_TO, COMMITTED]
        offsets.commit(apache.address, 0, COMMITTED_AT_APACHE)
        apache.stop()
        written, is_moved = offsets.written(apache.store)
        assert not is_moved, "Apache's broker does not write a member that it does not know"
        assert written == {0: COMMITTED_AT_APACHE, 1: COMMITTED}

        ours.start()
        assert offsets.of(ours.address) == [COMMITTED_AT_APACHE, COMMITTED]
        offsets.commit(ours.address, 0, COMMITTED_LAST)
        assert offsets.of(ours.address) == [COMMITTED_LAST, COMMITTED], "no move of an earlier life is left"
        ours.stop()
    finally:
        ours.close()
        apache.close()
