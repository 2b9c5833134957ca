"""Aged topics: their first messages were written and then deleted with their log file.

A new group on a queue that still has its first message starts there whatever it asks for, so start positions are tested
on queues without it. Needs a broker with `SMALL_FILES`. Apache's begins to delete a minute after its start.
"""

import os

from judges.server_process import wait_for
from judges.wire import SUCCESS, ask

SEND = 310
GET_MIN_OFFSET = 31
DELETE_EXPIRED = 329
FILE_BYTES = 8 << 20
BODY_BYTES = 1 << 20
PATIENCE_SECONDS = 100.0

SMALL_FILES = {
    "mappedFileSizeCommitLog": str(FILE_BYTES),
    "fileReservedTime": "0",
    "cleanResourceInterval": "1000",
    "deleteCommitLogFilesInterval": "1",
}


def age(broker: str, topic: str, queues: int) -> None:
    """Fill more than one log file by way of the topic's queues, and let the broker delete what came first."""
    fields = {"a": "filler", "b": topic, "c": "TBW102", "d": "4", "f": "0", "g": "0", "h": "0", "i": ""}
    for number in range(3 * FILE_BYTES // BODY_BYTES // 2):
        answer = ask(broker, SEND, {**fields, "e": str(number % queues)}, os.urandom(BODY_BYTES))
        assert answer.code == SUCCESS, f"{broker} refused a filling message: code {answer.code}, {answer.remark}"
    wait_for(
        lambda: _begins_late(broker, topic, queues), f"the queues of {topic} to lose their first", PATIENCE_SECONDS
    )


def _begins_late(broker: str, topic: str, queues: int) -> bool:
    ask(broker, DELETE_EXPIRED)
    asked = [ask(broker, GET_MIN_OFFSET, {"topic": topic, "queueId": str(queue)}) for queue in range(queues)]
    return all(int(answer.fields.get("offset", 0)) > 0 for answer in asked)
