"""The catch-up of an empty slave: ours and Apache's behind one master of ours, and a bare TCP copy of the files.

The log is one file, because Apache's empty slave begins with the master's newest file. The master's own view of a slave
is the clock: the offset that the slave has acknowledged, from its first byte to the end of the log. The bare copy sends
the same files with ``sendfile`` and writes what comes; nothing is checked.
"""

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.store.messages import TOPIC, drafts_of
from benchmarks.store.stores import config_of, on_loop, running
from firearrow.store.placement import WRITTEN
from judges import ApacheBroker, FireArrowBroker, FireArrowNameServer
from judges.server_process import wait_for
from judges.wire import GET_MAX_OFFSET, SUCCESS, ask

SEGMENT_BYTES = 1 << 30
QUEUES = 8
GET_HA_STATUS = 907
APPENDED_AT_ONCE = 2_000
LOOK_SECONDS = 0.03
WAIT_SECONDS = 180.0
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
SLAVE_SETTINGS = {**SETTINGS, "brokerRole": "SLAVE", "slaveReadEnable": "true"}


class CatchUp(msgspec.Struct):
    """Bytes a second of each way, best of all rounds."""

    log_bytes: int
    bare: float = 0.0
    ours: float = 0.0
    readable: float = 0.0
    """As ``ours``, up to the moment when consumers can read every message at the slave."""
    apache: float = 0.0


def catch_up(megabytes: int, body_bytes: int, rounds: int, apache: str) -> CatchUp:
    """Measure every way in turn, ``rounds`` times; without Apache's slave if ``apache`` is empty."""
    with FireArrowNameServer() as names:
        master = FireArrowBroker(name_servers=[names.address], settings=SETTINGS)
        with master:
            master.create_topic(TOPIC, QUEUES)
        on_loop(_fill(master.store, megabytes << 20, body_bytes))
        with master:
            end = _log_end(master.store)
            figures = CatchUp(end)
            for _ in range(rounds):
                figures.bare = max(figures.bare, end / _bare(master.store / "commitlog", end))
                slave = FireArrowBroker(name_servers=[names.address], broker_id=1, settings=SLAVE_SETTINGS)
                copied, readable = _copied(master, slave, end)
                figures.ours, figures.readable = max(figures.ours, end / copied), max(figures.readable, end / readable)
                if apache:
                    other = ApacheBroker(apache, name_servers=[names.address], broker_id=1, settings=SLAVE_SETTINGS)
                    figures.apache = max(figures.apache, end / _copied(master, other, end)[0])
            return figures


async def _fill(root: Path, size: int, body_bytes: int) -> None:
    async with running(str(root), config_of(segment_bytes=SEGMENT_BYTES)) as store:
        number = 0
        while store.log.tail < size:
            for draft in drafts_of(body_bytes, APPENDED_AT_ONCE, queues=QUEUES, first=number):
                store.append(draft)
            number += APPENDED_AT_ONCE
            await store.reached(store.log.tail, WRITTEN)
            await asyncio.sleep(0)


def _log_end(store: Path) -> int:
    """The end of the log in its only file: everything behind is zeros."""
    path = store / "commitlog" / f"{0:020d}"
    with path.open("rb") as file:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)


def _copied(master: FireArrowBroker, slave: ApacheBroker, end: int) -> tuple[float, float]:
    """Seconds until an empty slave has the log, and until every message can be read there."""
    slave.start()
    try:
        wait_for(lambda: _acked(master) > 0, "a slave that gets the log", WAIT_SECONDS)
        first, began = _acked(master), time.perf_counter()
        _wait(lambda: _acked(master) >= _end_of(master), "a slave with the whole log")
        log_s = time.perf_counter() - began
        _wait(lambda: _offsets(slave) == _offsets(master), "a slave whose queues are complete")
        whole = end / (end - first)
        return log_s * whole, (time.perf_counter() - began) * whole
    finally:
        slave.close()
        wait_for(lambda: _acked(master) < 0, "the end of the slave's connection", WAIT_SECONDS)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} after {WAIT_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)


def _status(master: FireArrowBroker) -> dict[str, object]:
    found: dict[str, object] = json.loads(ask(master.address, GET_HA_STATUS).body)
    return found


def _acked(master: FireArrowBroker) -> int:
    """Return the offset that the slave has acknowledged; -1 without a slave."""
    connections = _status(master)["haConnectionInfo"]
    assert isinstance(connections, list)
    return max((int(connection["slaveAckOffset"]) for connection in connections), default=-1)


def _end_of(master: FireArrowBroker) -> int:
    return int(str(_status(master)["masterCommitLogMaxOffset"]))


def _offsets(broker: ApacheBroker) -> list[int]:
    found = []
    for queue in range(QUEUES):
        answer = ask(broker.address, GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue)})
        found.append(int(answer.fields.get("offset", -1)) if answer.code == SUCCESS else -1)
    return found


def _bare(log: Path, end: int) -> float:
    """Seconds for a copy over TCP without any protocol or check, by two processes."""
    with TemporaryDirectory(dir=log.parent.parent) as to:
        listening = socket.create_server(("127.0.0.1", 0))
        child = os.fork()
        if child == 0:
            _receive(listening, Path(to, "copy"))
            os._exit(0)
        began = time.perf_counter()
        with socket.create_connection(listening.getsockname()) as sending, (log / f"{0:020d}").open("rb") as file:
            listening.close()
            sent = 0
            while sent < end:
                sent += os.sendfile(sending.fileno(), file.fileno(), sent, end - sent)
        os.waitpid(child, 0)
        return time.perf_counter() - began


def _receive(listening: socket.socket, path: Path) -> None:
    receiving, _ = listening.accept()
    buffer = memoryview(bytearray(1 << 20))
    with receiving, path.open("wb", buffering=0) as file:
        while got := receiving.recv_into(buffer):
            file.write(buffer[:got])
