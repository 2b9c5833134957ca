"""Bit rot: every byte of a small store is inverted, one at a time, on a copy that is then opened.

What must hold wherever the byte fell: the store opens, no message comes out with other bytes than it went in with, and
none is lost but the one whose own record rotted. A record that rotted is found by recovery, by the scrub, by
``store inspect --verify`` and by a cold read that comes before any of them. A queue entry or an index that rotted is
made again. A JSON file that rotted is read from its copy. A byte without meaning does no harm.
"""

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from typing import Final

from campaigns.faults.ledger import Figures
from campaigns.faults.rotten_store import WITHOUT_MEANING, Examined, Meaning, RotStore

_MEMORY: Final = "/dev/shm"  # noqa: S108


class Rotting:
    """One store, spoilt at every byte."""

    def __init__(self, seed: int, *, closed: bool) -> None:
        self._seed = seed
        self._closed = closed
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []

    def run(self, part: int = 0, parts: int = 1, below: str = "") -> Figures:
        """Turn every ``parts``-th byte over, of the files whose path begins with ``below``."""
        with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as scratch:
            store = RotStore(scratch, self._seed, closed=self._closed)
            files = {path: size for path, size in store.files.items() if path.startswith(below)}
            places = [(path, at) for path, size in files.items() for at in range(size)]
            for path, position in places[part::parts]:
                self._spoil(store, os.path.join(scratch, "spoilt"), path, position)
        meanings = {meaning.value: self.counts[meaning.value] for meaning in Meaning if self.counts[meaning.value]}
        return {
            "store": "closed" if self._closed else "killed",
            "bytes": sum(meanings.values()),
            "by_meaning": meanings,
            "without_meaning": sum(self.counts[meaning.value] for meaning in WITHOUT_MEANING),
            "records_spoilt": self.counts["spoilt"],
            "found_by_recovery": self.counts["recovery"],
            "found_by_cold_read": self.counts["read"],
            "found_by_scrub": self.counts["scrub"],
            "found_by_verify": self.counts["verify"],
            "wrong_bytes_served": self.counts["wrong"],
            "good_records_lost": self.counts["lost"],
            "broken": len(self.broken),
            "part": f"{part}/{parts}",
        }

    def _spoil(self, store: RotStore, target: str, path: str, position: int) -> None:
        meaning = store.meaning(path, position)
        self.counts[meaning.value] += 1
        story = f"{'closed' if self._closed else 'killed'}: byte {position} of {path}, {meaning.value}"
        record = store.record_at(int(os.path.basename(path)) + position) if meaning is Meaning.RECORD else None
        rotten = None if record is None else int(record.physical_offset)
        self.counts["spoilt"] += rotten is not None
        try:
            self._ways(store, target, (path, position), rotten, story)
        except Exception as error:  # noqa: BLE001 - a store that cannot be opened or read is a finding
            self.broken.append(f"{story}: {type(error).__name__}: {error}")
        shutil.rmtree(target, ignore_errors=True)

    def _ways(self, store: RotStore, target: str, place: tuple[str, int], rotten: int | None, story: str) -> None:
        def fresh() -> str:
            shutil.rmtree(target, ignore_errors=True)
            store.spoilt(target, *place)
            return target

        recovered = asyncio.run(store.examine(fresh()))
        self._compare(store, recovered, rotten, story)
        if rotten is None:
            if store.meaning(*place) is Meaning.ENTRY and not store.is_right(target, *place):
                self.broken.append(f"{story}: not made again")
            if store.meaning(*place) in WITHOUT_MEANING and recovered.damage:
                self.broken.append(f"{story}: called damaged: {recovered.damage}")
            return
        self._detected("recovery", any(bad.start == rotten for bad in recovered.damage), story)
        read = asyncio.run(store.examine(fresh(), window=0))
        self._compare(store, read, rotten, f"{story}, read cold")
        self._detected("read", any(bad.start == rotten for bad in read.damage), story)
        scrubbed = asyncio.run(store.examine(fresh(), window=0, scrub=True))
        self._detected("scrub", any(bad.start == rotten for bad in scrubbed.damage), story)
        verified = asyncio.run(store.verified(fresh()))
        self._detected("verify", any(bad.start == rotten for bad in verified.bad), story)

    def _detected(self, how: str, found: bool, story: str) -> None:
        self.counts[how] += found
        if not found:
            self.broken.append(f"{story}: not found by {how}")

    def _compare(self, store: RotStore, found: Examined, rotten: int | None, story: str) -> None:
        whole = store.whole
        ways = (
            ("queue", whole.by_queue, found.by_queue),
            ("id", whole.by_place, found.by_place),
            ("key", whole.by_key, found.by_key),
        )
        for way, expected, got in ways:
            wrong = [physical for physical, record in got.items() if expected.get(physical) != record]
            lost = [physical for physical in expected if physical not in got and physical != rotten]
            self.counts["wrong"] += len(wrong)
            self.counts["lost"] += len(lost)
            if wrong or lost or rotten in got:
                self.broken.append(f"{story}: by {way} wrong {wrong}, lost {lost}, rotten served {rotten in got}")
        if found.queue_ends != whole.queue_ends:
            self.broken.append(f"{story}: queues end at {found.queue_ends}, not {whole.queue_ends}")
        if found.tables != whole.tables:
            self.broken.append(f"{story}: the tables are {found.tables}")
