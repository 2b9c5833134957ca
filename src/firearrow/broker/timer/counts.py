"""The number of pending timed messages of each topic: ``config/timermetrics``. Java: ``store.timer.TimerMetrics``."""

from typing import Final

from firearrow import fastjson
from firearrow.errors import BadBody, DiskError, FileMissing
from firearrow.protocol.bodies.admin.store import TimerMetric, TimerMetricsTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.version import DataVersion
from firearrow.runtime.disk.door import Disk

PATH: Final = "config/timermetrics"


class TimerCounts:
    """The counts, and the rates at which messages come and go."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._by_topic: dict[str, list[int]] = {}
        self._counter = 0
        self._version_ms = 0
        self._is_changed = False
        self.added = 0
        """Messages put into the wheel since the start."""
        self.delivered = 0
        """Messages stored for their topics since the start."""
        self.added_a_second = 0.0
        self.delivered_a_second = 0.0
        self._sampled = (0, 0, 0)

    def change(self, topic: str, by: int, now_ms: int) -> None:
        """Count messages of a topic: more for those that wait, fewer for those that went."""
        row = self._by_topic.setdefault(topic, [0, 0])
        row[0] += by
        row[1] = self._version_ms = now_ms
        self._counter += 1
        self._is_changed = True

    @property
    def waiting(self) -> int:
        """The number of all messages that wait."""
        return sum(max(count, 0) for count, _ in self._by_topic.values())

    def by_topic(self) -> list[tuple[str, int]]:
        """Return how many messages of each topic wait."""
        return [(topic, max(count, 0)) for topic, (count, _) in self._by_topic.items()]

    def table(self) -> TimerMetricsTable:
        """Return the counts as Apache writes them."""
        return TimerMetricsTable(
            data_version=DataVersion(timestamp=self._version_ms, counter=self._counter),
            timing_count={
                topic: TimerMetric(count=count, time_stamp=changed_ms)
                for topic, (count, changed_ms) in self._by_topic.items()
            },
        )

    def sample(self, elapsed_ms: int) -> None:
        """Compute the rates since the last sample."""
        added, delivered, then_ms = self._sampled
        seconds = max(elapsed_ms - then_ms, 1) / 1000
        self.added_a_second = (self.added - added) / seconds
        self.delivered_a_second = (self.delivered - delivered) / seconds
        self._sampled = (self.added, self.delivered, elapsed_ms)

    async def load(self) -> None:
        """Read the file; a file that is missing or unreadable counts nothing."""
        for path in (PATH, f"{PATH}.bak"):
            try:
                table = fastjson.decode(await self._disk.read_whole(path), TimerMetricsTable)
            except (FileMissing, BadBody):
                continue
            self._by_topic = {topic: [row.count, row.time_stamp] for topic, row in table.timing_count.items()}
            if table.data_version is not None:
                self._counter, self._version_ms = table.data_version.counter, table.data_version.timestamp
            return

    async def save(self) -> None:
        """Write the file if a count has changed."""
        if self._is_changed:
            self._is_changed = False
            try:
                self._disk.make_directory("config")
                await self._disk.replace(PATH, encode_body(self.table()))
            except DiskError:
                self._is_changed = True
                raise
