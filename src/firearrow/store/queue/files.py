"""The files of all queues, with a bounded number of open ones.

A file is created when its first entry is written: its directories, the file, and its full length, sparse. Changed
directories are recorded until `sync_names`; no entry of a new file counts as durable before. Slots that were never
written read as zeros. Java: ``MappedFileQueue``.
"""

from collections import OrderedDict
from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk, File, parent_of
from firearrow.store.paths import CONSUME_QUEUE
from firearrow.store.queue.consume_queue import ENTRY_BYTES, ConsumeQueue, queue_directory, queue_path

DEFAULT_FILE_BYTES: Final = 6_000_000
_PAGE_BYTES: Final = 4096
_ZEROS: Final = bytes(_PAGE_BYTES)


class QueueFiles:
    """Entries on disk, by queue and offset."""

    def __init__(self, disk: Disk, file_bytes: int, max_open: int) -> None:
        self.disk = disk
        self.file_bytes = file_bytes
        self.per_file = file_bytes // ENTRY_BYTES
        self._max_open = max_open
        self._open: OrderedDict[tuple[ConsumeQueue, int], File] = OrderedDict()
        self._renamed: dict[str, None] = {}

    def first_of(self, offset: int) -> int:
        """The first entry of the file that holds an entry."""
        return offset - offset % self.per_file

    # ---- reading

    def read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Entries of one file: up to ``count`` from ``offset`` on, fewer at the file's end. Blocks on the device."""
        count = min(count, self.per_file - offset % self.per_file)
        try:
            data = self._file(queue, self.first_of(offset)).read_at(self._position(offset), count * ENTRY_BYTES)
        except FileMissing:
            data = b""
        return data.ljust(count * ENTRY_BYTES, b"\0")

    def read_hot(self, queue: ConsumeQueue, offset: int, count: int) -> bytes | None:
        """As `read`, but None when it would wait for the device."""
        count = min(count, self.per_file - offset % self.per_file)
        try:
            data = self._file(queue, self.first_of(offset)).read_hot(self._position(offset), count * ENTRY_BYTES)
        except FileMissing:
            data = b""
        return None if data is None else data.ljust(count * ENTRY_BYTES, b"\0")

    async def read_cold(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """As `read`, but off the loop when it would wait for the device."""
        hot = self.read_hot(queue, offset, count)
        if hot is not None:
            return hot
        count = min(count, self.per_file - offset % self.per_file)
        try:
            # A second descriptor, because the cache may close the first one during the read.
            file = self.disk.open(queue_path(queue.topic, queue.queue_id, self.first_of(offset)))
        except FileMissing:
            return bytes(count * ENTRY_BYTES)
        try:
            data = await file.read(self._position(offset), count * ENTRY_BYTES)
        finally:
            file.close()
        return data.ljust(count * ENTRY_BYTES, b"\0")

    # ---- writing

    def write(self, queue: ConsumeQueue, offset: int, entries: bytes | bytearray | memoryview) -> None:
        """Write entries, creating files as needed."""
        at = 0
        while at < len(entries):
            room = self.file_bytes - self._position(offset)
            # A copy: the traceback of a failed write may be kept, and a view that it holds would keep ``entries`` from
            # growing.
            piece = bytes(entries[at : at + room])
            self._file_to_write(queue, offset).write_at(self._position(offset), [piece])
            at += len(piece)
            offset += len(piece) // ENTRY_BYTES

    def ends_at(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether all slots from ``offset`` to the end of its file are zero; a missing file counts as zeros."""
        try:
            file = self._file(queue, self.first_of(offset))
        except FileMissing:
            return True
        at = self._position(offset)
        page_end = min(-(-at // _PAGE_BYTES) * _PAGE_BYTES, self.file_bytes)
        if file.size != self.file_bytes or file.read_at(at, page_end - at) != _ZEROS[: page_end - at]:
            return False
        return page_end == self.file_bytes or file.next_data(page_end) >= self.file_bytes

    def cut(self, queue: ConsumeQueue, offset: int) -> None:
        """Write zeros to all slots from ``offset`` to the end of its file."""
        file = self._file(queue, self.first_of(offset))
        file.truncate(self._position(offset))
        file.truncate(self.file_bytes)

    def there(self, queue: ConsumeQueue, first: int) -> bool:
        """Whether a file exists."""
        return self.disk.exists(queue_path(queue.topic, queue.queue_id, first))

    async def sync(self, queue: ConsumeQueue, first: int) -> None:
        """Make the entries of one file durable."""
        await self._file(queue, first).sync()

    def doubt_names(self, queue: ConsumeQueue) -> None:
        """Add the directory of a queue to the next `sync_names`: another program created its files."""
        directory = queue_directory(queue.topic, queue.queue_id)
        self._renamed |= {"": None, CONSUME_QUEUE: None, parent_of(directory): None, directory: None}

    async def sync_names(self) -> None:
        """Make the names of new files durable."""
        renamed, self._renamed = self._renamed, {}
        for directory in renamed:
            try:
                await self.disk.sync_directory(directory)
            except FileMissing:
                continue  # the topic was deleted since
            except BaseException:
                self._renamed = renamed | self._renamed
                raise

    async def sync_everything(self) -> None:
        """Make the entries and the names of every file durable."""
        renamed, self._renamed = self._renamed, {}
        try:
            if self.disk.exists(CONSUME_QUEUE):
                await self.disk.sync_below(CONSUME_QUEUE)
            if "" in renamed:
                await self.disk.sync_directory()
        except BaseException:
            self._renamed = renamed | self._renamed
            raise

    # ---- removing

    async def remove(self, queue: ConsumeQueue, first: int) -> None:
        """Delete one file; a no-op when it does not exist."""
        self._forget(queue, first)
        path = queue_path(queue.topic, queue.queue_id, first)
        try:
            await self.disk.unlink(path)
        except FileMissing:
            return
        self._renamed[parent_of(path)] = None

    async def remove_queue(self, queue: ConsumeQueue) -> None:
        """Delete a queue's directory and everything in it."""
        for key in [key for key in self._open if key[0] is queue]:
            self._forget(*key)
        directory = queue_directory(queue.topic, queue.queue_id)
        try:
            names = await self.disk.list(directory)
        except FileMissing:
            return
        for name in names:
            await self.disk.unlink(f"{directory}/{name}")
        await self.disk.remove_directory(directory)
        self._renamed.pop(directory, None)
        self._renamed[parent_of(directory)] = None

    def close(self) -> None:
        """Close every file."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    # ---- open files

    def _position(self, offset: int) -> int:
        return offset % self.per_file * ENTRY_BYTES

    def _file(self, queue: ConsumeQueue, first: int) -> File:
        key = (queue, first)
        file = self._open.get(key)
        if file is not None:
            self._open.move_to_end(key)
            return file
        file = self.disk.open(queue_path(queue.topic, queue.queue_id, first))
        return self._keep(key, file)

    def _file_to_write(self, queue: ConsumeQueue, offset: int) -> File:
        """The file that holds an entry; created if the entry is its first."""
        first = self.first_of(offset)
        try:
            file = self._make(queue, first) if self._is_new(queue, offset) else self._file(queue, first)
        except FileMissing:
            file = self._make(queue, first)
        if file.size != self.file_bytes:
            file.truncate(self.file_bytes)
        return file

    def _is_new(self, queue: ConsumeQueue, first: int) -> bool:
        """Whether the file very likely does not exist yet: then creating it costs less than looking for it first."""
        return first % self.per_file == 0 and first == queue.written and (queue, first) not in self._open

    def _make(self, queue: ConsumeQueue, first: int) -> File:
        path = queue_path(queue.topic, queue.queue_id, first)
        directory = parent_of(path)
        try:
            file = self.disk.open(path, create=True)
        except FileMissing:
            self.disk.make_directory(directory)
            self.doubt_names(queue)
            file = self.disk.open(path, create=True)
        self._renamed[directory] = None
        return self._keep((queue, first), file)

    def _keep(self, key: tuple[ConsumeQueue, int], file: File) -> File:
        if len(self._open) >= self._max_open:
            self._open.popitem(last=False)[1].close()
        self._open[key] = file
        return file

    def _forget(self, queue: ConsumeQueue, first: int) -> None:
        file = self._open.pop((queue, first), None)
        if file is not None:
            file.close()
