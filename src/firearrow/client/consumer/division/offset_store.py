"""Offsets of a group: in memory here, stored by brokers, or in a local file for broadcasting.

``QueueOffsets`` is pure. Offsets only increase, unless they are reset. ``RemoteOffsets`` stores them at the brokers,
``LocalOffsets`` in the file that Java's clients read and write::

    <client id>/<group>/offsets.json    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}

Java: ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``.
"""

import asyncio
import logging
from typing import Final, Protocol

from firearrow import fastjson
from firearrow.client.consumer.broker_queries import Puller
from firearrow.client.doors import WholeFiles
from firearrow.errors import BadBody, FileMissing, FireArrowError, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import ResetOffsetBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset

log: Final = logging.getLogger(__name__)

REPEAT_S: Final = 60.0
"""Seconds until unchanged offsets are committed again: a broker may have lost them, or may have been replaced."""


class QueueOffsets:
    """The offsets of a consumer's queues, and which of them are not committed yet."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._kept: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of the group in a queue."""
        return self._offsets.get(queue)

    def note(self, queue: MessageQueue, offset: int, *, is_reset: bool = False) -> None:
        """Set the offset of a queue; a lower offset than the known one counts only with ``is_reset``."""
        if is_reset or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def unkept(self) -> dict[MessageQueue, int]:
        """Return the offsets that changed since the last commit."""
        return {queue: offset for queue, offset in self._offsets.items() if self._kept.get(queue) != offset}

    def kept(self, queue: MessageQueue, offset: int) -> None:
        """Note that this offset is committed."""
        self._kept[queue] = offset

    def keep_again(self) -> None:
        """Treat every offset as not committed."""
        self._kept.clear()

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of a queue that another member owns now."""
        self._offsets.pop(queue, None)
        self._kept.pop(queue, None)

    def all(self) -> dict[MessageQueue, int]:
        """Return every offset by queue."""
        return dict(self._offsets)


class Offsets(Protocol):
    """Stores the offsets of a group."""

    @property
    def table(self) -> QueueOffsets:
        """The offsets in memory."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the stored offset of a queue; None if there is none."""
        ...

    async def persist(self) -> FireArrowError | None:
        """Store changed offsets; return the error if that failed (the next call tries again), else None."""
        ...


class RemoteOffsets:
    """Offsets of a clustering group, stored by brokers."""

    def __init__(self, puller: Puller, group: str) -> None:
        self.table: Final = QueueOffsets()
        self._puller = puller
        self._group = group
        self._repeat_at = asyncio.get_running_loop().time() + REPEAT_S

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the broker for the offset of a queue."""
        request = QueryConsumerOffset(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return (await self._puller.ask(queue.broker_name, request)).answer.offset
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return None

    async def persist(self) -> FireArrowError | None:
        """Commit changed offsets queue by queue; now and then all offsets, because a broker may have lost some."""
        now = asyncio.get_running_loop().time()
        if now >= self._repeat_at:
            self._repeat_at = now + REPEAT_S
            self.table.keep_again()
        parts: dict[tuple[str, str], list[tuple[MessageQueue, int]]] = {}
        for queue, offset in self.table.unkept().items():
            parts.setdefault((queue.broker_name, queue.topic), []).append((queue, offset))
        errors = await asyncio.gather(*(self._persist_part(part) for part in parts.values()))
        return next((error for error in errors if error is not None), None)

    async def _persist_part(self, part: list[tuple[MessageQueue, int]]) -> FireArrowError | None:
        """Commit the offsets of one topic at one broker: the first queue alone, then the others concurrently.

        If a group commits its first offsets of a topic concurrently, Apache's brokers acknowledge all and keep only
        some: two threads create the group's table, and the second table replaces the first.
        """
        first = await self._persist(*part[0])
        errors = await asyncio.gather(*(self._persist(queue, offset) for queue, offset in part[1:]))
        return next((error for error in (first, *errors) if error is not None), None)

    async def _persist(self, queue: MessageQueue, offset: int) -> FireArrowError | None:
        request = UpdateConsumerOffset(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        try:
            await self._puller.ask(queue.broker_name, request)
        except FireArrowError as error:
            extra = {"queue": str(queue), "reason": str(error)}
            log.warning("the offset of %s could not be committed: %s", queue, error, extra=extra)
            return error
        self.table.kept(queue, offset)
        return None


class LocalOffsets:
    """Offsets of a broadcasting consumer, stored in one file."""

    def __init__(self, disk: WholeFiles, client_id: str, group: str) -> None:
        self.table: Final = QueueOffsets()
        self._disk = disk
        self._directory = f"{client_id}/{group}"
        self._path = f"{self._directory}/offsets.json"
        self._stored: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the offset in the file, which is read once."""
        if self._stored is None:
            self._stored = await self._load()
        return self._stored.get(queue)

    async def _load(self) -> dict[MessageQueue, int]:
        for path in (self._path, f"{self._path}.bak"):
            try:
                return fastjson.decode(await self._disk.read_whole(path), ResetOffsetBody).offset_table
            except FileMissing:
                continue
            except BadBody as error:
                extra = {"path": path, "reason": str(error)}
                log.warning("the file of offsets %s is broken: %s", path, error, extra=extra)
        return {}

    async def persist(self) -> FireArrowError | None:
        """Replace the file as a whole."""
        changed = self.table.unkept()
        if not changed:
            return None
        stored = self._stored if self._stored is not None else await self._load()
        self._stored = {**stored, **self.table.all()}
        try:
            self._disk.make_directory(self._directory)
            await self._disk.replace(self._path, encode_body(ResetOffsetBody(offset_table=self._stored)))
        except FireArrowError as error:
            extra = {"path": self._path, "reason": str(error)}
            log.warning("offsets could not be written to %s: %s", self._path, error, extra=extra)
            return error
        for queue, offset in changed.items():
            self.table.kept(queue, offset)
        return None
