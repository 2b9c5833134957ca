"""The load: one stock producer at a rate on 32 queues, and three groups that are each given everything.

Two members of each of the first two groups can be restarted and killed; the third group is left alone. What the
clients wrote is read as it comes (`look`), and compared at the end (`lost`).
"""

import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.soak.clients import Kind, Member, Producer
from benchmarks.soak.records import Delays, Delivered, Numbers
from firearrow.testing.complaints import complaints_in
from judges import ApacheBroker

QUEUES = 32
RATE = 1_500
BODY_BYTES = 128
ARRIVAL_S = 60.0
RUNNING_S = 120.0
POLL_S = 0.2


class GroupShape(NamedTuple):
    """A group of the load."""

    kind: Kind
    members: int
    is_troubled: bool


GROUPS = {
    "java-troubled": GroupShape("java", 2, is_troubled=True),
    "ours-troubled": GroupShape("ours", 2, is_troubled=True),
    "java-steady": GroupShape("java", 1, is_troubled=False),
}


class Load:
    """Clients at one broker; leaving the block kills those that are left."""

    def __init__(self, broker: ApacheBroker, topic: str, rate: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="firearrow-soak-"))
        self.delivered = {group: Delivered() for group in GROUPS}
        self.acknowledged = Numbers()
        self.failed = 0
        broker.create_topic(topic, QUEUES)
        names = broker.name_servers[0]
        self.members: dict[str, list[Member]] = {}
        for group, shape in GROUPS.items():
            for number in range(shape.members):
                # One after the other: on few cores the starts of several JVMs time each other out.
                name = f"{group}-{number}"
                member = Member(shape.kind, name, self.directory, names, topic, f"{group}-{topic}")
                self.members.setdefault(group, []).append(member)
                member.wait_started()
        self._producer = Producer(self.directory, names, topic, rate, BODY_BYTES)
        self._producer.wait_started()

    @property
    def troubled(self) -> list[Member]:
        """The members that may be restarted and killed, kinds in turn."""
        groups = [self.members[group] for group, shape in GROUPS.items() if shape.is_troubled]
        return [member for places in zip(*groups, strict=True) for member in places]

    def look(self) -> None:
        """Read what was written since."""
        self.acknowledged.add(self._producer.acknowledged())
        self.failed = self._producer.failed
        for group, members in self.members.items():
            for member in members:
                self.delivered[group].add(member.deliveries())

    def wait_running(self) -> None:
        """Wait until every group is given messages."""
        deadline = time.monotonic() + RUNNING_S
        before = self.given()
        while not self.is_flowing(before):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {RUNNING_S:.0f} s the groups have been given {self.given()}")
            time.sleep(POLL_S)
            self.look()

    def given(self) -> dict[str, int]:
        """Return the number of deliveries to each group."""
        return {group: one.numbers.total for group, one in self.delivered.items()}

    def is_flowing(self, before: dict[str, int]) -> bool:
        """Whether every group has been given something since."""
        return all(total > before[group] for group, total in self.given().items())

    def lost(self) -> dict[str, int]:
        """Return the number of acknowledged messages that each group was not given."""
        return {group: len(self.acknowledged.missing_from(one.numbers)) for group, one in self.delivered.items()}

    def finish(self) -> dict[str, int]:
        """End the producer, wait until everything has arrived, end the members; return what has not."""
        self._producer.end()
        deadline = time.monotonic() + ARRIVAL_S
        self.look()
        while any(self.lost().values()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
            self.look()
        for member in self._all():
            member.end()
        self.look()
        return self.lost()

    def between(self, from_ns: int, to_ns: int, kind: Kind | None = None) -> Delays:
        """Delays of what was sent in this time to groups of one kind, or to all."""
        found = Delays()
        for group, shape in GROUPS.items():
            if kind in (None, shape.kind):
                found.merge(self.delivered[group].between(from_ns, to_ns))
        return found

    def exceptions(self) -> dict[str, int]:
        """Exceptions in the logs of our clients, by member."""
        ours = [member for member in self._all() if member.kind == "ours"]
        return {member.name: count for member in ours if (count := count_exceptions(member.log))}

    def keep_logs(self, directory: Path) -> None:
        """Copy what the clients said."""
        for log in self.directory.glob("*.log"):
            shutil.copy(log, directory / log.name)

    def _all(self) -> list[Member]:
        return [member for members in self.members.values() for member in members]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.kill()
        for member in self._all():
            member.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def count_exceptions(log: Path) -> int:
    """Return the number of exceptions in a log, those that follow each other closely as one."""
    return len(complaints_in(log.read_text(errors="replace"))) if log.exists() else 0
