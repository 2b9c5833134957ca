"""A large store, made in one go: the files that a broker would have left after as many messages, without sending them.

Every record has the same size, so a whole file of the log is one array of them; places, offsets, keys, times and bodies
are written into it column by column. Queues take turns, record by record. Bodies are random; their checksums are not
filled in, which nobody looks at who does not ask for it.
"""

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import HostBytes
from firearrow.record.layout import BLANK_MAGIC, BLANK_SIZE, HEAD_SIZE
from firearrow.record.properties import StoredProperties

TOPIC: Final = "large"
QUEUES: Final = 8
SEGMENT: Final = 1 << 30
QUEUE_FILE_ENTRIES: Final = 300_000
KEY_DIGITS: Final = 12
START_MS: Final = 1_790_000_000_000
MESSAGES_A_MS: Final = 10
_FIELDS: Final = {"queue_id": (12, ">i4"), "queue_offset": (20, ">i8"), "place": (28, ">i8"), "stored": (56, ">i8")}

Bytes = npt.NDArray[np.uint8]


def template(body: int) -> bytes:
    """A record to be filled in."""
    keys, unique = "0" * KEY_DIGITS, "0" * 32
    properties = f"KEYS\x01{keys}\x02TAGS\x01t\x02UNIQ_KEY\x01{unique}\x02".encode()
    host = HostBytes(bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big"))
    draft = Draft(TOPIC, 0, bytes(body), StoredProperties(properties), EpochMs(START_MS), host, host)
    return encode(draft, QueueOffset(0), PhysicalOffset(0), EpochMs(START_MS), stamped=False)


def make_store(directory: Path, messages: int, body: int = 100) -> None:
    """The store of so many messages."""
    record = np.frombuffer(template(body), np.uint8)
    keys_at = int(record.tobytes().index(b"KEYS\x01")) + 5
    a_file = (SEGMENT - BLANK_SIZE) // len(record)
    entries = [QueueFiles(directory, number) for number in range(QUEUES)]
    chance = np.random.default_rng(7)
    (directory / "commitlog").mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, messages, a_file)):
        count = min(a_file, messages - first)
        rows = np.tile(record, (count, 1))
        numbers = np.arange(first, first + count, dtype=np.int64)
        places = number * SEGMENT + np.arange(count, dtype=np.int64) * len(record)
        _fill(rows, numbers, places, keys_at)
        rows[:, HEAD_SIZE : HEAD_SIZE + body] = chance.integers(0, 256, (count, body), np.uint8)
        _write_segment(directory / "commitlog" / f"{number * SEGMENT:020d}", rows.reshape(-1))
        for queue, each in enumerate(entries):
            each.add(places[numbers % QUEUES == queue], len(record))
    for each in entries:
        each.close()


def _fill(rows: Bytes, numbers: npt.NDArray[np.int64], places: npt.NDArray[np.int64], keys_at: int) -> None:
    values = {
        "queue_id": numbers % QUEUES,
        "queue_offset": numbers // QUEUES,
        "place": places,
        "stored": START_MS + numbers // MESSAGES_A_MS,
    }
    for name, (at, kind) in _FIELDS.items():
        field = values[name].astype(kind)
        rows[:, at : at + field.itemsize] = field.view(np.uint8).reshape(len(field), -1)
    digits = numbers.copy()
    for at in range(keys_at + KEY_DIGITS - 1, keys_at - 1, -1):
        rows[:, at] = ord("0") + digits % 10
        digits //= 10


def _write_segment(path: Path, data: Bytes) -> None:
    left = SEGMENT - len(data)
    with path.open("wb") as file:
        file.write(data.data)
        file.write(left.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big"))
        file.truncate(SEGMENT)


class QueueFiles:
    """The files of one consume queue."""

    def __init__(self, directory: Path, number: int) -> None:
        self._directory = directory / "consumequeue" / TOPIC / str(number)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._waiting: list[Bytes] = []
        self._held = self._written = 0

    def add(self, places: npt.NDArray[np.int64], size: int) -> None:
        """More records."""
        entries = np.zeros(len(places), np.dtype([("place", ">i8"), ("size", ">i4"), ("code", ">i8")]))
        entries["place"], entries["size"], entries["code"] = places, size, ord("t")
        self._waiting.append(entries.view(np.uint8))
        self._held += len(places)
        while self._held >= QUEUE_FILE_ENTRIES:
            self._write_one()

    def close(self) -> None:
        """Write what is left."""
        if self._held:
            self._write_one()

    def _write_one(self) -> None:
        whole, length = np.concatenate(self._waiting), QUEUE_FILE_ENTRIES * 20
        path = self._directory / f"{self._written * length:020d}"
        with path.open("wb") as file:
            file.write(whole[:length].data)
            file.truncate(length)
        self._waiting, self._written = [whole[length:]], self._written + 1
        self._held = len(self._waiting[0]) // 20
