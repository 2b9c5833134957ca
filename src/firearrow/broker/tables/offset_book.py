"""The offsets of groups and the file that keeps them."""

from msgspec import Struct

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.offset_rows import PATH, OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.runtime.disk.door import Disk
from firearrow.store.placement import FLUSHED
from firearrow.store.store import Store


class OffsetBook(Struct, frozen=True, eq=False):
    """The offsets of the groups of one broker."""

    table: OffsetTable
    file: StateFile

    @classmethod
    def make(cls, disk: Disk, store: Store, settings: LiveSettings, mark: str) -> "OffsetBook":
        """Return the book of a broker; `ConsumerSide` loads it. ``mark`` tells its changes from those of another
        run."""
        table = OffsetTable(lambda: settings.value.bounds.max_consumer_offsets, mark)

        async def everything_durable() -> None:
            """Wait until the log is durable: an offset must not outlive the messages that it counts as read."""
            await store.reached(store.log.tail, FLUSHED)

        rows, interval_ms = OffsetRows(table, store.max_offset), settings.value.consuming.flush_consumer_offset_interval
        return cls(table, StateFile(disk, PATH, rows, interval_ms=interval_ms, settled=everything_durable))
