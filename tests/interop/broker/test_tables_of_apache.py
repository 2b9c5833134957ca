"""A slave of ours keeps the tables of Apache's master: topics (21), offsets (43), delay offsets (45) and groups (201).

Such a master compares no logs: the slave takes the tables because the connection that copies the log has found that
the master's log is not shorter than its own. Tables also arrive after a kill of the master.
"""

import json
from typing import Any

import pytest

from campaigns.replication.copies import OURS, broker_of, wait_until_copied
from campaigns.rotation import this_turn
from judges import ApacheBroker, FireArrowNameServer, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.server_process import answers, wait_for
from judges.wire import SUCCESS, ask

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(600)]

SEGMENT = 1 << 20
WAIT_S = 120.0
TIMEOUT_S = 30.0
SEND, COMMIT, UPDATE_GROUP = 10, 15, 200
TOPICS, OFFSETS, DELAYS, GROUPS = 21, 43, 45, 201
LEVEL = 1
MESSAGES = 4


def ask_master(master: ApacheBroker, code: int, fields: dict[str, str], body: bytes = b"") -> None:
    """Ask for something that must succeed."""
    answer = ask(master.address, code, fields, body, TIMEOUT_S)
    assert answer.code == SUCCESS, answer


def table(broker: ApacheBroker, code: int, member: str) -> dict[str, Any]:
    """One of a broker's tables; empty while it does not answer."""
    body = answers(broker.address, code)
    return {} if body is None else json.loads(body)[member]


def send(master: ApacheBroker, topic: str, level: int = 0) -> None:
    """Put messages into queue 0 of a topic."""
    fields = {
        "producerGroup": "tables",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "0",
        "flag": "0",
        "properties": f"DELAY\x01{level}\x02" if level else "",
    }
    for _ in range(MESSAGES):
        ask_master(master, SEND, fields, b"body")


def commit(master: ApacheBroker, topic: str, group: str, offset: int) -> None:
    """Commit as a consumer does."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    ask_master(master, COMMIT, fields)


def fill(master: ApacheBroker) -> tuple[str, str]:
    """Make a topic and a group with offsets; return their names."""
    topic, group = master.create_topic(fresh("tables"), queues=3), fresh("group")
    made = {"groupName": group, "retryMaxTimes": 7}
    ask_master(master, UPDATE_GROUP, {}, json.dumps(made).encode())
    send(master, topic)
    commit(master, topic, group, MESSAGES - 1)
    return topic, group


def until_copied(slave: ApacheBroker, topic: str, group: str, offset: int) -> None:
    """Wait until a slave has a topic with its settings, its group, and the group's offset."""
    row = f"{topic}@{group}"
    wait_for(lambda: topic in table(slave, TOPICS, "topicConfigTable"), f"topic {topic} at the slave", WAIT_S)
    assert table(slave, TOPICS, "topicConfigTable")[topic]["readQueueNums"] == 3
    wait_for(lambda: group in table(slave, GROUPS, "subscriptionGroupTable"), f"group {group} at the slave", WAIT_S)
    assert table(slave, GROUPS, "subscriptionGroupTable")[group]["retryMaxTimes"] == 7
    is_there = {"0": offset}
    wait_for(lambda: table(slave, OFFSETS, "offsetTable").get(row) == is_there, f"the offset of {row}", WAIT_S)


@pytest.mark.rotating
@pytest.mark.parametrize("version", this_turn(SERVER_VERSIONS, __name__))
def test_a_slave_takes_the_tables_of_apaches_master(version: str) -> None:
    with FireArrowNameServer() as names, broker_of(version, names.address, 0, SEGMENT) as master:
        topic, group = fill(master)
        send(master, topic, LEVEL)
        with broker_of(OURS, names.address, 1, SEGMENT) as slave:
            until_copied(slave, topic, group, MESSAGES - 1)
            delivered = {str(LEVEL): MESSAGES}
            wait_for(lambda: table(slave, DELAYS, "offsetTable") == delivered, f"delay offsets {delivered}", WAIT_S)
            commit(master, topic, group, MESSAGES)
            until_copied(slave, topic, group, MESSAGES)

            master.kill()
            master.start()
            other, others = fill(master)
            wait_until_copied(master, slave, WAIT_S)
            until_copied(slave, other, others, MESSAGES - 1)
            assert topic in table(slave, TOPICS, "topicConfigTable")
