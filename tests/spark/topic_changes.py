"""Topics that shrink, grow, are deleted and created again under a stream and jobs: every row once, or a loss told.

    python -m tests.spark.topic_changes --rounds 200 --directory DIR [--servers firearrow,5.5.0] [--ledger [FILE]]

A round is a topic of its own on two brokers and a dozen acts at random, chosen by the number of the round: rows are
sent, the number of queues changes on one broker, also to none, the topic is deleted and created again, a stream reads a
batch of a random size, a batch is repeated by another process, as Spark does after a kill, and a job reads the topic.
Before every batch a stream with failOnDataLoss looks at the checkpoint: an error there is a loss that is told. At the
end the stream reads what is left.
Then

- no row was delivered twice, and every row of the topic as it is now was delivered;
- a row that was deleted with its topic was delivered, or a loss was told after the deletion, with a queue of the topic;
- no loss was told where the topic was not created again since the checkpoint;
- every job, and the store files at the end, had exactly the rows of the topic at that moment.

Apache's brokers tell no lives of topics, so the deletion of a topic of which nothing was read leaves no trace there;
rows of such topics are counted as ``unknowable``. Run again with the same directory it goes on with the next round.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.admin import Admin
from firearrow.blocking import PullConsumer
from firearrow.errors import FireArrowError, SettingsError
from firearrow.spark.link import close_links
from firearrow.spark.source.reader import DataLost
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer
from judges.servers import make_topic
from tests.spark.source.reading import numbered, numbers, read_store, rows_between, send, stream, wait_until

OURS = "firearrow"
BROKERS = ("broker-a", "broker-b")
ACTS = 12
MOST_QUEUES = 6
MOST_ROWS = 60
PATIENCE_S = 60
QUICK = {"dispatchFlushInterval": "100"}
"""Milliseconds after which our broker writes its queues to their files."""


@contextmanager
def serving(kind: str) -> Iterator[list[ApacheBroker]]:
    """A name server and two brokers of ours, or of a version of Apache's."""
    with ExitStack() as stack:
        if kind == OURS:
            names: Any = stack.enter_context(FireArrowNameServer())
            made: list[ApacheBroker] = [
                FireArrowBroker(name_servers=[names.address], name=name, settings=QUICK) for name in BROKERS
            ]
        else:
            names = stack.enter_context(ApacheNameServer(kind))
            made = [ApacheBroker(kind, name_servers=[names.address], name=name) for name in BROKERS]
        yield [stack.enter_context(each) for each in made]


class Round:
    """One topic, a stream over it, and what both must show."""

    def __init__(self, brokers: Sequence[ApacheBroker], number: int) -> None:
        self._brokers = brokers
        self._queues: dict[str, int] = {}
        """The number of queues of the topic on each broker."""
        self._at = brokers[0].name_servers[0]
        self._chance = random.Random(number)
        self._topic = f"changes-{number}-{time.monotonic_ns()}"
        self._tells_lives = isinstance(brokers[0], FireArrowBroker)
        self._next_row = 0
        self.rows: list[int] = []
        """The rows of the topic as it is now."""
        self._delivered: list[int] = []
        self._gone: set[int] = set()
        """Rows that were deleted before the stream read them, and of which no loss was told yet."""
        self._is_anew = False
        """Whether the topic was created again since the checkpoint."""
        self._checkpoint: Any = None
        self._has_read = False
        """Whether the stream has read a row of the topic as it is now."""
        self.faults: list[str] = []
        self.counts = dict.fromkeys(
            ("sent", "lost_and_told", "unknowable", "deletions", "to_no_queues", "jobs", "batches", "repeats"), 0
        )

    def run(self) -> None:
        """Act at random, then compare."""
        self._create()
        acts = [
            self._send,
            self._send,
            self._resize,
            self._resize,
            self._make_again,
            self._batch,
            self._batch,
            self._job,
        ]
        try:
            self._checkpoint = self._stream().initialOffset()
            for _ in range(ACTS):
                self._chance.choice(acts)()
            self._finish()
        finally:
            close_links()

    def _told(self, **more: str) -> dict[str, str]:
        return {"nameServer": self._at, "subscribe": self._topic, "startingOffsets": "earliest", **more}

    def _stream(self, **more: str) -> Any:
        return stream(self._told(**more))

    # -- acts

    def _create(self) -> None:
        for broker in self._brokers:
            self._queues[broker.name] = self._chance.randint(1, MOST_QUEUES)
            broker.create_topic(self._topic, self._queues[broker.name])
        self._wait_for_queues(is_empty=True)

    def _send(self) -> None:
        if not any(self._queues.values()):
            self._resize_to(self._brokers[0], 1)
        count = self._chance.randint(1, MOST_ROWS)
        send(self._at, numbered(self._topic, count, self._next_row))
        self.rows += range(self._next_row, self._next_row + count)
        self._next_row += count
        self.counts["sent"] += count

    def _resize(self) -> None:
        broker = self._chance.choice(self._brokers)
        queues = self._chance.choice((0, self._chance.randint(1, MOST_QUEUES)))
        others = sum(self._queues.values()) - self._queues[broker.name]
        if not queues and not others and not self.rows:
            queues = 1  # a topic without queues and messages is none
        self._resize_to(broker, queues)

    def _resize_to(self, broker: ApacheBroker, queues: int) -> None:
        make_topic(broker.address, self._topic, queues)
        self._queues[broker.name] = queues
        self.counts["to_no_queues"] += not queues
        self._wait_for_queues()

    def _make_again(self) -> None:
        self._delete()
        unread = set(self.rows) - set(self._delivered)
        if unread and not self._tells_lives and not self._has_read:
            self.counts["unknowable"] += len(unread)
        else:
            self._gone |= unread
        self.rows, self._has_read = [], False
        self._is_anew = True
        self.counts["deletions"] += 1
        self._create()
        close_links()  # the stream is started again
        if self._chance.random() < 0.5:  # as many rows as before, or nearly: offsets come to the checkpoint's
            self._send()

    def _batch(self) -> None:
        try:
            self._stream().latestOffset(self._checkpoint, None)
        except DataLost as error:
            self._note_alarm(str(error))
        self._is_anew = False
        size = str(self._chance.choice((1, 7, 40, 1000)))
        reader = self._stream(failOnDataLoss="false", maxOffsetsPerTrigger=size)
        end = reader.latestOffset(self._checkpoint, None)
        found = rows_between(reader, self._checkpoint, end)
        self.counts["batches"] += 1
        if self._chance.random() < 0.3:
            close_links()
            self.counts["repeats"] += 1
            again = rows_between(self._stream(failOnDataLoss="false"), self._checkpoint, end)
            if again != found:
                self.faults.append(f"a repeated batch has {len(again)} rows, not {len(found)}")
        self._delivered += found
        self._has_read = self._has_read or bool(found)
        self._checkpoint = end

    def _note_alarm(self, error: str) -> None:
        """A loss is told: it must name a queue of the topic, and the topic must have been created again."""
        if not self._is_anew:
            self.faults.append(f"a loss is told where nothing was lost: {error}")
        elif not re.search(rf"{self._topic} on broker-[ab], queue \d+ has changed", error):
            self.faults.append(f"a loss is told without a queue of the topic: {error}")
        else:
            self.counts["lost_and_told"] += len(self._gone)
            self._gone = set()

    def _job(self) -> None:
        self.counts["jobs"] += 1
        found = numbers(self._told())
        if found != self.rows:
            self.faults.append(f"a job has {len(found)} rows of {len(self.rows)}")

    # -- the end

    def _finish(self) -> None:
        before = None
        while before != self._checkpoint:
            before = self._checkpoint
            self._batch()
        twice = len(self._delivered) - len(set(self._delivered))
        lost = len(set(self.rows) - set(self._delivered))
        if twice or lost or self._gone:
            self.faults.append(f"{twice} rows twice, {lost} lost, {len(self._gone)} lost by a deletion and not told")
        self._job()
        until, kept = time.monotonic() + PATIENCE_S, self._in_files()
        while kept != self.rows and time.monotonic() < until:  # queues are written behind the log
            time.sleep(0.05)
            kept = self._in_files()
        if kept != self.rows:
            self.faults.append(f"the store files have {len(kept)} rows of {len(self.rows)}")

    def _in_files(self) -> list[int]:
        found: list[int] = []
        for broker in self._brokers:
            with suppress(SettingsError):  # no file of this topic is written
                rows = read_store({"path": str(broker.store), "subscribe": self._topic}, ["body"])
                found += [int(body) for body in rows["body"]]
        return sorted(found)

    def _delete(self) -> None:
        async def do() -> None:
            async with Admin(self._at, timeout_ms=1000 * PATIENCE_S) as admin:
                await admin.topics.delete(self._topic)

        asyncio.run(do())

    def _wait_for_queues(self, *, is_empty: bool = False) -> None:
        """Wait until name servers show the queues of the topic, and until brokers have no messages of it."""

        async def routed() -> dict[str, int]:
            async with Admin(self._at, timeout_ms=1000 * PATIENCE_S) as admin:
                route = await admin.brokers.route(self._topic)
            return {} if route is None else {str(each.broker_name): each.read_queue_nums for each in route.queue_datas}

        def agree() -> bool:
            shown = asyncio.run(routed())
            if {name: shown.get(name, 0) for name in self._queues} != self._queues:
                return False
            try:
                return not (is_empty and any(each.end for each in looker.bounds(self._topic).values()))
            except FireArrowError:
                return False

        with PullConsumer(self._at, group="topic-changes", poll_name_server_ms=50) as looker:
            wait_until(agree, f"the queues of {self._topic}")


def play(brokers: Sequence[ApacheBroker], number: int) -> Round:
    """Play one round."""
    played = Round(brokers, number)
    try:
        played.run()
    except FireArrowError as error:
        played.faults.append(f"{type(error).__name__}: {error}")
    return played


def main() -> int:
    """Play rounds, by command."""
    parser = argparse.ArgumentParser(description="topics that change under streams and jobs")
    parser.add_argument("--rounds", type=int, default=200, help="of each server, over all runs")
    parser.add_argument("--seconds", type=float, default=1e9, help="ends one run")
    parser.add_argument("--directory", type=Path, required=True, help="keeps what was played; run again to go on")
    parser.add_argument("--servers", default=f"{OURS},5.5.0")
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    logging.getLogger("firearrow").setLevel(logging.ERROR)
    kinds, began = given.servers.split(","), time.monotonic()
    wrong: list[str] = []
    for place, kind in enumerate(kinds, 1):
        path = given.directory / f"{kind}.json"
        played: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rounds": 0, "faults": []}
        with serving(kind) as brokers:
            while played["rounds"] < given.rounds and time.monotonic() < began + given.seconds * place / len(kinds):
                number = played["rounds"]
                ended = play(brokers, number)
                played["rounds"] += 1
                played["faults"] += [f"round {number}: {fault}" for fault in ended.faults]
                for name, count in ended.counts.items():
                    played[name] = played.get(name, 0) + count
                path.write_text(json.dumps(played))
                print(kind, number, ended.counts, *ended.faults, flush=True)
        wrong += [f"{kind}: {fault}" for fault in played["faults"]]
        figures = {"server": kind, **played, "faults": len(played["faults"])}
        print(json.dumps(Ledger("topic-changes", given.ledger).add(figures)))
    print("\n".join(wrong) or "every row once, or a loss told")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
