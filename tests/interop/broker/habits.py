"""Apache's broker and ours with clients that ask for much: run, not read.

python -m tests.interop.broker.habits [apache] [ours] [QUESTION ...]      prints a line for every question

The page of differences (docs/reference/broker-differences.md) rests on this.
"""

import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer
from judges.wire import Answer, ask

AnyBroker = ApacheBroker | FireArrowBroker
SEND, PULL, HEARTBEAT, NOTICE = 310, 11, 34, 40
MAY_WAIT, CARRIES_SUBSCRIPTION = 2, 4
TOPIC: Final = "habits"
MIB: Final = 1 << 20
MEMBERS: Final = 30


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """A request as bytes."""
    members = {"code": code, "language": "OTHER", "version": 0, "opaque": opaque, "flag": 0, "extFields": fields}
    header = json.dumps(members).encode()
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def pull(queue_id: int, wait_ms: int, subscription: str = "*") -> dict[str, str]:
    """The fields of a pull from the beginning of a queue."""
    flags = CARRIES_SUBSCRIPTION | (MAY_WAIT if wait_ms else 0)
    return {
        "consumerGroup": "habits", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": str(flags), "commitOffset": "0", "suspendTimeoutMillis": str(wait_ms), "subVersion": "0",
        "subscription": subscription, "expressionType": "TAG",
    }  # fmt: skip


def send(broker: AnyBroker, topic: str, queue_id: int, body: bytes) -> Answer:
    """Send one message."""
    fields = {
        "a": "P", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return ask(broker.address, SEND, fields, body, timeout_seconds=10)


def connect(broker: AnyBroker) -> socket.socket:
    """A connection."""
    return socket.create_connection(("127.0.0.1", broker.port), 5)


def a_long_hold(broker: AnyBroker) -> str:
    """The time that a pull is held that asks for 45 s."""
    began = time.monotonic()
    answer = ask(broker.address, PULL, pull(1, 45_000), timeout_seconds=80)
    return f"answered with {answer.code} after {time.monotonic() - began:.0f} s"


def pulls_of_the_dead(broker: AnyBroker) -> str:
    """The rest of 200 waiting pulls 3 s after their connection has ended (counted in a JVM)."""
    with connect(broker) as line:
        for number in range(200):
            line.sendall(frame(PULL, number, pull(1, 60_000)))
        time.sleep(2)
    time.sleep(3)
    if isinstance(broker, FireArrowBroker):
        return "see tests/integration/broker/test_hostile_pulls.py"
    told = subprocess.run(["jcmd", str(broker.pid), "GC.class_histogram"], capture_output=True, text=True, check=True)
    rows = [row.split() for row in told.stdout.splitlines() if row.endswith(".longpolling.PullRequest")]
    return f"{rows[0][1] if rows else 0} objects PullRequest alive"


def a_long_subscription(broker: AnyBroker) -> str:
    """The answer to a pull for 20,000 tags, 147 KB of them."""
    tags = "||".join(f"t{number}" for number in range(20_000))
    answer = ask(broker.address, PULL, pull(1, 0, tags), timeout_seconds=10)
    return f"code {answer.code} {answer.remark[:60]}"


def unread_answers(broker: AnyBroker) -> str:
    """Memory after 200 pulls of 1 MiB each whose answers nobody reads."""
    before = broker.memory_bytes("RssAnon")
    with connect(broker) as line:
        line.settimeout(5)
        with suppress(TimeoutError):
            for number in range(200):
                line.sendall(frame(PULL, number, pull(0, 0)))
        most = 0
        for _ in range(20):
            time.sleep(0.25)
            most = max(most, broker.memory_bytes("RssAnon") - before)
    return f"+{most / MIB:.0f} MiB"


def half_frames(broker: AnyBroker) -> str:
    """Memory after 20 connections have each sent 15 MiB of a frame of 16 MB."""
    before = broker.memory_bytes("RssAnon")
    with ExitStack() as stack:
        cut = 0
        for _ in range(20):
            line = stack.enter_context(connect(broker))
            try:
                line.sendall((16_000_000).to_bytes(4, "big") + (100).to_bytes(4, "big") + bytes(15 * MIB))
            except OSError:
                cut += 1
        time.sleep(3)
        grown = broker.memory_bytes("RssAnon") - before
    return f"+{grown / MIB:.0f} MiB, {cut} connections cut while they wrote"


def notices(broker: AnyBroker) -> str:
    """The number of notices to the first member of a group while 30 more come at once."""
    with ExitStack() as stack:
        lines = [stack.enter_context(connect(broker)) for _ in range(MEMBERS + 1)]
        for number, line in enumerate(lines):
            line.sendall(frame(HEARTBEAT, number, {}, _heartbeat(f"member-{number}")))
            if number == 0:
                time.sleep(2)
        lines[0].settimeout(5)
        heard = b""
        with suppress(TimeoutError):
            while more := lines[0].recv(1 << 16):
                heard += more
    return f"{heard.count(b'consumerGroup')} notices"


def _heartbeat(client: str) -> bytes:
    wanted = {"topic": TOPIC, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1, "expressionType": "TAG"}
    group = {
        "groupName": "crowd", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [wanted], "unitMode": False,
    }  # fmt: skip
    return json.dumps({"clientID": client, "consumerDataSet": [group], "producerDataSet": []}).encode()


def no_descriptors(broker: AnyBroker) -> str:
    """The outcome of sends while 300 connections want descriptors of which 60 are left, and after they have gone."""
    used = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (used + 60, used + 60))
    with ExitStack() as stack:
        for _ in range(300):
            with suppress(OSError):
                stack.enter_context(connect(broker))
        time.sleep(2)
        taken = len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) - used
        during = _sent(broker, "habits-during")
    time.sleep(5)
    after = _sent(broker, "habits-after")
    return f"{taken} descriptors taken; a send to a new topic meanwhile: {during}; afterwards: {after}"


def _sent(broker: AnyBroker, topic: str) -> str:
    try:
        return f"code {send(broker, topic, 0, b'x').code}"
    except OSError as error:
        return type(error).__name__


QUESTIONS: Final[tuple[Callable[[AnyBroker], str], ...]] = (
    a_long_hold, pulls_of_the_dead, a_long_subscription, unread_answers, half_frames, notices, no_descriptors,
)  # fmt: skip


def look(name: str, broker: AnyBroker) -> None:
    """Ask everything."""
    broker.create_topic(TOPIC, queues=4)
    send(broker, TOPIC, 0, bytes(MIB))
    named = [question for question in QUESTIONS if question.__name__ in sys.argv]
    for question in named or QUESTIONS:
        said = " ".join((question.__doc__ or "").split())
        try:
            print(f"| {said} | {name} | {question(broker)} |", flush=True)
        except OSError as error:
            print(f"| {said} | {name} | {type(error).__name__}: {error} |", flush=True)


def main() -> None:
    """Ask those that were named."""
    wanted = set(sys.argv[1:]) & {"apache", "ours"} or {"apache", "ours"}
    if "apache" in wanted:
        with ApacheNameServer() as names, ApacheBroker(name_servers=[names.address]) as apache:
            look("Apache 5.5.0", apache)
    if "ours" in wanted:
        with FireArrowNameServer() as our_names, FireArrowBroker(name_servers=[our_names.address]) as ours:
            look("ours", ours)


if __name__ == "__main__":
    main()
