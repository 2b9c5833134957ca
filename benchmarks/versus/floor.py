"""The floor: the least that one Python process must do to take a stock producer's sends and keep them as we do.

    python -m benchmarks.versus.floor PORT DIRECTORY

A name server's route and a broker's send on one port. Each message becomes a record with its CRC stamp in the log, an
entry in the file of its queue and an entry in the index, as they lie on disk; one write to the log and one to the
socket for each read, queues and index written once a second. It has no recovery, no limits, no consumers, no errors and
no structure to speak of: it shows what the language costs, and our broker is measured against it.
"""

import asyncio
import gc
import os
import struct
import sys
import time
import zlib
from array import array
from socket import inet_aton

import msgspec

from firearrow.runtime.loops import new_loop

QUEUES = 8
SEND, ROUTE_OF, MAX_OFFSET = 310, 105, 30
SLOTS = 5_000_000
MAGIC = -626843481
PREFIX = struct.Struct(">II")
HEADING = struct.Struct(">hbhiii")
ANSWER = struct.Struct(">IIhbhiiii")
RECORD = struct.Struct(">iiiiiqqiqQqQiqi")
ENTRY = struct.Struct(">qiq")
INDEX_ENTRY = struct.Struct(">iqii")
KEY = b"UNIQ_KEY\x01"
KEY_CHARACTERS = 32
SUFFIX = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
STAMP = 20
FIELDS_LENGTH = 4


class Fields(msgspec.Struct, gc=False):
    """The header fields of a send."""

    topic: str = msgspec.field(name="b", default="")
    queue: int = msgspec.field(name="e", default=0)
    sys_flag: int = msgspec.field(name="f", default=0)
    born_ms: int = msgspec.field(name="g", default=0)
    flag: int = msgspec.field(name="h", default=0)
    properties: str = msgspec.field(name="i", default="")
    tries: int = msgspec.field(name="j", default=0)
    asked_queue: int = msgspec.field(name="queueId", default=0)


class Header(msgspec.Struct, gc=False):
    """A header in JSON."""

    code: int
    opaque: int = 0
    flag: int = 0
    fields: Fields = msgspec.field(name="extFields", default_factory=Fields)


read_json = msgspec.json.Decoder(Header, strict=False).decode


class Files:
    """Log, queues and index."""

    def __init__(self, directory: str, port: int) -> None:
        self._directory = directory
        self._log = self._open("commitlog")
        self._index = self._open("index")
        self._queue_files = [self._open(f"queue{number}") for number in range(QUEUES)]
        self.host = int.from_bytes(inet_aton("127.0.0.1"), "big") << 32 | port
        self.ends = [0] * QUEUES
        self._tail = 0
        self._pending: list[bytes] = []
        self._entries: list[list[bytes]] = [[] for _ in range(QUEUES)]
        self._keys: list[tuple[bytes, int]] = []
        self._slots = array("i", bytes(4 * SLOTS))
        self._indexed = 1

    def _open(self, name: str) -> int:
        return os.open(f"{self._directory}/{name}", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)

    def append(self, send: Fields, topic: bytes, given: bytes, body: bytes, born: int, now_ms: int) -> tuple[int, int]:
        """Give a message its place."""
        queue, physical = send.queue, self._tail
        offset = self.ends[queue]
        self.ends[queue] = offset + 1
        properties = given + SUFFIX
        length = len(properties) + STAMP
        size = 91 + len(body) + len(topic) + length
        crc = zlib.crc32(body) & 0x7FFFFFFF
        head = RECORD.pack(
            size,
            MAGIC,
            crc,
            queue,
            send.flag,
            offset,
            physical,
            send.sys_flag,
            send.born_ms,
            born,
            now_ms,
            self.host,
            send.tries,
            0,
            len(body),
        )
        record = b"%b%b%c%b%b%b" % (head, body, len(topic), topic, length.to_bytes(2, "big"), properties)
        stamp = (b"\x02%010d\x01#23CRC__" % (zlib.crc32(record) & 0x7FFFFFFF))[::-1]
        self._pending += (record, stamp)
        self._entries[queue].append(ENTRY.pack(physical, size, 0))
        at = given.find(KEY) + len(KEY)
        self._keys.append((given[at : at + KEY_CHARACTERS], physical))
        self._tail = physical + size
        return physical, offset

    def write(self) -> None:
        """Write what one read brought."""
        if self._pending:
            os.write(self._log, b"".join(self._pending))
            self._pending.clear()

    def write_behind(self) -> None:
        """Write queues and index."""
        for file, entries in zip(self._queue_files, self._entries, strict=True):
            os.write(file, b"".join(entries))
            entries.clear()
        made = []
        slots, number = self._slots, self._indexed
        for key, physical in self._keys:
            hashed = zlib.crc32(key) & 0x7FFFFFFF
            slot = hashed % SLOTS
            made.append(INDEX_ENTRY.pack(hashed, physical, 0, slots[slot]))
            slots[slot] = number
            number += 1
        os.write(self._index, b"".join(made))
        self._indexed = number
        self._keys.clear()


class Connection(asyncio.Protocol):
    """Answers one client."""

    def __init__(self, files: Files, port: int) -> None:
        self._files = files
        self._rest = b""
        self._id = b"%08X%08X" % (files.host >> 32, port)
        route = {
            "brokerDatas": [{"brokerAddrs": {"0": f"127.0.0.1:{port}"}, "brokerName": "a", "cluster": "c"}],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": "a", "perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "topicSysFlag": 0}
            ],
        }
        self._route = msgspec.json.encode(route)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        host, port = transport.get_extra_info("peername")
        self._born = int.from_bytes(inet_aton(host), "big") << 32 | port

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, now_ms = 0, int(time.time() * 1000)
        answers: list[bytes] = []
        while len(data) - at >= 8:
            length, header = PREFIX.unpack_from(data, at)
            end = at + 4 + length
            if end > len(data):
                break
            body_at = at + 8 + (header & 0xFFFFFF)
            take = self._compact if header >> 24 else self._json
            take(data, at + 8, body_at, end, now_ms, answers)
            at = end
        self._rest = data[at:]
        self._files.write()
        if answers:
            self._transport.write(b"".join(answers))  # type: ignore[attr-defined] # a base transport has none

    def _compact(self, data: bytes, at: int, body_at: int, end: int, now_ms: int, answers: list[bytes]) -> None:
        code, _, _, opaque, flag, remark = HEADING.unpack_from(data, at)
        fields = body = b""
        if code == SEND:
            value = {}
            at += HEADING.size + remark + FIELDS_LENGTH
            while at < body_at:
                start = at + 7
                stop = start + int.from_bytes(data[at + 3 : start], "big")
                value[data[at + 2]] = data[start:stop]
                at = stop
            send = Fields(
                queue=int(value[101]),
                sys_flag=int(value[102]),
                born_ms=int(value[103]),
                flag=int(value[104]),
                tries=int(value[106]),
            )
            given = value.get(105, b"")
            physical, offset = self._files.append(send, value[98], given, data[body_at:end], self._born, now_ms)
            queue, place = b"%d" % send.queue, b"%d" % offset
            fields = b"\0\5msgId\0\0\0\x20%b%016X\0\7queueId\0\0\0%c%b\0\13queueOffset\0\0\0%c%b" % (
                self._id,
                physical,
                len(queue),
                queue,
                len(place),
                place,
            )
        elif code == ROUTE_OF:
            body = self._route
        if not flag & 3:
            size = 21 + len(fields)
            answers += (
                ANSWER.pack(4 + size + len(body), size | 1 << 24, 0, 0, 513, opaque, 1, 0, len(fields)),
                fields,
                body,
            )

    def _json(self, data: bytes, at: int, body_at: int, end: int, now_ms: int, answers: list[bytes]) -> None:
        asked = read_json(memoryview(data)[at:body_at])
        fields = body = b""
        if asked.code == SEND:
            send = asked.fields
            given = send.properties.encode()
            physical, offset = self._files.append(
                send, send.topic.encode(), given, data[body_at:end], self._born, now_ms
            )
            fields = b'"extFields":{"msgId":"%b%016X","queueId":"%d","queueOffset":"%d"},' % (
                self._id,
                physical,
                send.queue,
                offset,
            )
        elif asked.code == MAX_OFFSET:
            fields = b'"extFields":{"offset":"%d"},' % self._files.ends[asked.fields.asked_queue]
        elif asked.code == ROUTE_OF:
            body = self._route
        if not asked.flag & 3:
            header = (
                b'{"code":0,%b"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
            ) % (fields, asked.opaque)
            answers += (PREFIX.pack(4 + len(header) + len(body), len(header)), header, body)


async def main(port: int, directory: str) -> None:
    """Serve until killed."""
    files = Files(directory, port)
    await asyncio.get_running_loop().create_server(lambda: Connection(files, port), "127.0.0.1", port)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    while True:
        await asyncio.sleep(1)
        files.write_behind()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2]))
