"""The longest step of each share of a broker's turn, while every request is made once and every background job runs.

The broker is a process of its own whose turn is watched from within (`serve`): the CPU time of each step without the
collections of garbage within it, and those by themselves. The growth of a dict is not told apart: it is in the step
that added the row. A small broker stands beside the large one.
"""

import asyncio
import gc
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.size.every_request import asked_of, deletions, place
from benchmarks.size.filled import Filler, Shape
from benchmarks.size.probe import connect, run
from benchmarks.size.table import HOLD_MS, Row, at_most
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.cli import main
from firearrow.errors import RequestRefused
from firearrow.remoting.caller import Caller
from firearrow.runtime.acceptor import raise_descriptor_limit
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.runtime.turn import Share, Turn, name_of
from judges import FireArrowNameServer

FULL: Final = Shape(
    topics=50_000,
    groups=20_000,
    offsets=400_000,
    connections=20_000,
    pulls=90_000,
    timers=500_000,
    halves=10_000,
    locks=50_000,
)
SMALL: Final = Shape.of(50)
SETTLE_S: Final = 10.0
"""Longer than the first timers wait, and than queues are flushed after."""
WAITS_MS: Final = 30_000
JOBS_S: Final = 40.0
"""Longer than every period of a broker."""
LOOK_S: Final = 0.2
ANSWER_MS: Final = 60_000
BEGIN: Final = ".begin"


class Longest(msgspec.Struct):
    """The longest step of a share."""

    ms: float = 0.0
    of: str = ""


class Seen(msgspec.Struct):
    """The longest steps by share, and the longest collection of garbage."""

    shares: dict[str, Longest]
    garbage_ms: float = 0.0


def scaled(scale: float) -> Shape:
    """Return the full shape at a scale."""
    return Shape(*(max(int(count * scale), 10) for count in FULL))


class _Recorder:
    """Notes the longest steps of this process's turn in a file, which another process reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = Seen({})
        self._garbage_ns = self._charged_ns = self._began_ns = 0

    def install(self) -> None:
        """Watch every turn of this process from now on."""
        charge, charge_step = Turn.charge, Turn.charge_step

        def charged(turn: Turn, share: Share, took_ns: int) -> None:
            if turn.tells and share is Share.FILTER:  # within a step of another share
                self._note(share.label, took_ns / 1e6, "expressions")
            charge(turn, share, took_ns)

        def watched(turn: Turn, share: Share, took_ns: int, charged_ns: int, of: object) -> int:
            garbage_ns, self._charged_ns = self._garbage_ns - self._charged_ns, self._garbage_ns
            if turn.tells:
                self._note(share.label, (took_ns - garbage_ns) / 1e6, of)
            return charge_step(turn, share, took_ns, charged_ns, of)

        Turn.charge_step = watched  # type: ignore[method-assign, assignment] # this process is there to be watched
        Turn.charge = charged  # type: ignore[method-assign, assignment]
        gc.callbacks.append(self._collected)
        threading.Thread(target=self._tell, daemon=True).start()

    def _note(self, share: str, took_ms: float, of: object) -> None:
        known = self._seen.shares.get(share)
        if known is None or took_ms > known.ms:
            self._seen.shares[share] = Longest(took_ms, of if isinstance(of, str) else name_of(of))

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        now_ns = time.thread_time_ns()
        if phase == "start":
            self._began_ns = now_ns
        else:
            self._garbage_ns += now_ns - self._began_ns
            self._seen.garbage_ms = max(self._seen.garbage_ms, (now_ns - self._began_ns) / 1e6)

    def _tell(self) -> None:
        begin = self._path.with_suffix(BEGIN)
        while True:
            time.sleep(LOOK_S)
            if begin.exists():
                self._seen = Seen({})
                begin.unlink()
            self._path.write_bytes(msgspec.json.encode(self._seen))


def serve(path: str) -> None:
    """Be the broker: its longest steps go into the file, from the time on at which a file of its name begins it."""
    _Recorder(Path(path)).install()
    main()


def _begin(begin: Path) -> None:
    """Wait until the broker has forgotten the steps so far."""
    begin.touch()
    while begin.exists():
        time.sleep(LOOK_S)


async def _ask_everything(port: int, shape: Shape, begin: Path, seconds: float) -> None:
    filler, address = Filler(shape, lambda: connect(port)), Address("127.0.0.1", port)
    caller = Caller(SystemNetwork())
    await filler.fill()
    await asyncio.sleep(SETTLE_S)
    await filler.join()
    placed = await place(caller, address)
    await asyncio.to_thread(_begin, begin)
    await filler.park(WAITS_MS)
    for asked in [*asked_of(shape, placed), None, *deletions()]:
        if asked is None:
            await asyncio.sleep(seconds)
            continue
        try:
            await caller.call(address, asked.request, asked.body, timeout_ms=ANSWER_MS)
        except RequestRefused as refusal:
            if not asked.refused:
                print(f"{asked.act} was refused: {refusal}", file=sys.stderr)
    await asyncio.sleep(SETTLE_S)
    for line in filler.members:
        line.transport.close()
    await asyncio.sleep(LOOK_S * 5)
    await caller.close()


def _look(shape: Shape, seconds: float) -> Seen:
    with tempfile.TemporaryDirectory() as directory, FireArrowNameServer(arguments=["--log-level", "ERROR"]) as names:
        path = Path(directory) / "steps.json"
        broker = FireArrowInEarnest(name_servers=[names.address], settings={"recallMessageEnable": "true"})
        broker.program = f"from benchmarks.size.steps import serve; serve({str(path)!r})"
        with broker:
            run(_ask_everything(broker.port, shape, path.with_suffix(BEGIN), seconds))
            return msgspec.json.decode(path.read_bytes(), type=Seen)


def of_steps(scale: float, patience: float = 1.0) -> Iterator[Row]:
    """The longest step of each share, of a small broker and of one at size; collections of garbage by themselves."""
    raise_descriptor_limit()
    small, large = _look(SMALL, JOBS_S * patience), _look(scaled(scale), JOBS_S * patience)
    for share in Share:
        before, after = (seen.shares.get(share.label, Longest()) for seen in (small, large))
        yield at_most(f"longest step of share {share.label}: {after.of}", "ms of CPU", before.ms, after.ms, HOLD_MS)
    most = max(small.garbage_ms, large.garbage_ms)
    yield Row("longest collection of garbage", "ms of CPU", small.garbage_ms, large.garbage_ms, most, "no limit,")
