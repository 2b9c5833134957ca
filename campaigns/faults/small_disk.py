"""A disk that is soon full, and one that lies: a tmpfs of a few pages, and ext4 on an image with no room behind it.

On the first a store runs out of space for real, goes on serving reads, and takes messages again when something else was
deleted. On the second the kernel accepts writes that it cannot store: a sync fails, the next would say OK, and the data
is gone. The store must not promise anything after the first failure.
"""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from campaigns.faults.acks import parse_acks, parse_refused
from campaigns.faults.checker import check
from campaigns.faults.ledger import Figures
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import Options, Session
from campaigns.faults.writer import Writer
from firearrow.errors import DiskError, DiskFull
from firearrow.store.config import FlushMode
from firearrow.store.read.queue_reader import ReadRequest

_BALLAST: Final = 1600 << 10
_ROUNDS: Final = 3
_WAIT_S: Final = 20.0


@contextmanager
def tmpfs(size_bytes: int) -> Iterator[str]:
    """A file system in memory of that size."""
    root = tempfile.mkdtemp(prefix="small-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", root], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", root], check=True)
        os.rmdir(root)


class FullDisk:
    """Fills a small disk with messages, several times."""

    def __init__(self, flush: FlushMode, seed: int) -> None:
        self._flush: FlushMode = flush
        self._recipe = Recipe(seed)
        self._said = bytearray()
        self._next = 0
        self.broken: list[str] = []
        self.counts = {"read_while_full": 0, "reasons": 0}

    def run(self) -> Figures:
        """Fill, read, free, go on; close; check."""
        with tmpfs(4 << 20) as root:
            options = Options(
                root=f"{root}/store",
                flush=self._flush,
                segment_bytes=65_536,
                queue_file_bytes=6000,
                index_slots=1000,
                index_entries=8000,
            )
            asyncio.run(self._live(options, f"{root}/ballast"))
            promised, refused = parse_acks(bytes(self._said)), set(parse_refused(bytes(self._said)))
            findings = asyncio.run(check(options, self._recipe, promised))
        if not findings.good:
            self.broken.append(findings.story())
        if found := refused & set(findings.found):
            self.broken.append(f"refused and found: {sorted(found)[:5]}")
        return {
            "case": "full disk",
            "flush": self._flush,
            "rounds": _ROUNDS,
            "promised": len(promised),
            "lost": len(findings.lost),
            "refused": len(refused),
            "read_while_full": self.counts["read_while_full"],
            "broken": len(self.broken),
        }

    async def _live(self, options: Options, ballast: str) -> None:
        _fill(ballast, _BALLAST)
        session = await Session.open(options)
        try:
            await self._fill_and_free(session, ballast)
        except BaseException:
            await session.abandon()
            raise
        os.unlink(ballast)
        await session.close()

    async def _fill_and_free(self, session: Session, ballast: str) -> None:
        writer = Writer(session, self._recipe, self._say)
        for done in range(_ROUNDS):
            await self._until(writer, full=True)
            await self._read_everything(session)
            os.truncate(ballast, _BALLAST - (done + 1) * _BALLAST // (_ROUNDS + 1))
            await self._until(writer, full=False)

    def _say(self, text: str) -> None:
        self._said += text.encode()

    async def _until(self, writer: Writer, *, full: bool) -> None:
        """Append until the disk has no space, or has some again; in bounded time, without a restart."""
        async with asyncio.timeout(_WAIT_S):
            while True:
                before = self._said.count(b"# refused")
                self._next = await writer.write(self._next, 10)
                if (self._said.count(b"# refused") > before) == full:
                    break
        if full and b"space" not in self._said:
            self.broken.append("the refusal does not say that space is missing")

    async def _read_everything(self, session: Session) -> None:
        """Every message promised so far, through the queues, while the disk is full."""
        promised = {(ack.topic, ack.queue_id): ack.queue_offset for ack in parse_acks(bytes(self._said))}
        for (topic, queue_id), last in promised.items():
            offset = 0
            while offset <= last:
                pulled = await session.store.read(topic, queue_id, ReadRequest(offset, 32, 1 << 20))
                if pulled.next_offset <= offset:
                    self.broken.append(f"{topic}/{queue_id} cannot be read at {offset} while the disk is full")
                    return
                self.counts["read_while_full"] += pulled.messages
                offset = pulled.next_offset


def _fill(path: str, size: int) -> None:
    with open(path, "wb") as file:
        file.write(b"\1" * size)


class LyingDisk:
    """ext4 on an image whose own file system has no room: writes are taken, syncs fail, data is lost."""

    def __init__(self, seed: int) -> None:
        self._recipe = Recipe(seed)
        self._said = bytearray()
        self.broken: list[str] = []

    def run(self) -> Figures:
        """Write until a sync fails; see that nothing is promised after it; look at what is left."""
        with tmpfs(48 << 20) as outer:
            mounted = f"{outer}/mounted"
            os.mkdir(mounted)
            _make_image(f"{outer}/image", mounted)
            try:
                outcome = asyncio.run(self._live(mounted, outer))
                os.unlink(f"{outer}/ballast")
                subprocess.run(["umount", mounted], check=True)
                subprocess.run(["mount", "-o", "loop", f"{outer}/image", mounted], check=True)
                promised = parse_acks(bytes(self._said))
                options = Options(root=f"{mounted}/store", segment_bytes=1 << 20, boot_id="boot-1")
                findings = asyncio.run(check(options, self._recipe, promised))
            finally:
                subprocess.run(["umount", mounted], check=True)
        if not findings.good:
            self.broken.append(findings.story())
        return {"case": "lying disk", "outcome": outcome, "promised": len(promised), "lost": len(findings.lost)}

    async def _live(self, mounted: str, outer: str) -> str:
        options = Options(root=f"{mounted}/store", segment_bytes=1 << 20, zero_fill=False)
        session = await Session.open(options)
        writer = Writer(session, self._recipe, self._say)
        number = await writer.write(0, 100)
        fill_up(f"{outer}/ballast")
        outcome = "nothing failed"
        try:
            for _ in range(2000):
                number = await writer.write(number, 50)
        except DiskError as error:
            outcome = type(error).__name__
            said = len(self._said)
            await self._goes_on_refusing(session)
            if len(self._said) != said:
                self.broken.append("promised after a failed sync")
        await session.abandon()
        return outcome

    async def _goes_on_refusing(self, session: Session) -> None:
        for number in range(5):
            try:
                places = session.append([self._recipe.message(10_000_000 + number * 10 + 9).draft()])
                await session.reached(places[-1].end)
            except DiskFull:
                self.broken.append("after a failed sync the store speaks of a full disk instead of its fence")
            except DiskError:
                continue
            self._say("promised\n")

    def _say(self, text: str) -> None:
        self._said += text.encode()


def _make_image(image: str, mounted: str) -> None:
    with open(image, "wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True)


def fill_up(path: str) -> None:
    """Take every page that is left."""
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(b"\1" * 4096):
                pass
        except OSError:
            return
