"""A day of small batches into Iceberg and Delta, with upkeep beside them: no row lost or twice, and nothing piles up.

    python -m tests.spark.small_batches --commits 1728 --directory DIR [--formats A,B] [--seconds S] [--ledger [FILE]]

An archive with ``--follow`` commits a batch every 5 seconds: 17,280 a day. Here batches follow each other without a
pause, and without Spark's trigger: the sink's own code writes and commits them (`firearrow.spark.lake.sink.Target`,
made anew for each batch as Spark does), and a process of its own does what ``pipeline maintain --compact --expire
--orphans`` does, beside them, after every `UPKEEP_EVERY` batches. Rows have the times of the day that is acted, which
begins an hour before midnight; partitions are days, so a batch lies over midnight. Every `REPEAT_EVERY`-th batch is
written and committed again, as Spark does after a kill.

Time runs faster than the ages that upkeep takes, so upkeep is told a later time: versions of the table are forgotten
after `VERSIONS_S` real seconds, and files without a commit are removed after `ORPHANS_S`. deltalake has a clock of its
own and whole hours, so removed files of Delta are vacuumed at once, files without a commit stay, and its log, with the
notes of removed files, is kept for `LOG_KEPT`.

Run again with the same directory it goes on where it stopped: tables know their last batch. Every run ends with a
comparison of all rows, read by DuckDB and by pyiceberg or deltalake, and a line in the ledger.
"""

import argparse
import json
import multiprocessing
import signal
import sys
import time
from datetime import UTC, date, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.sink import Target, WrittenFiles, committer
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.maintain import maintain
from firearrow.spark.upkeep.work import Upkeep
from tests.spark.readers import by_duckdb, by_python
from tests.spark.serving import end_with_parent

BATCH_S = 5
A_DAY = 86_400 // BATCH_S
ROWS = 20
UPKEEP_EVERY = 60
REPEAT_EVERY = 50
VERSIONS_S = 10
ORPHANS_S = 120
LOG_KEPT = "interval 1 minute"
HOUR_MS = 3_600_000
BEGAN = datetime(2026, 5, 1, 23, tzinfo=UTC)
WRITER = "small-batches"
GROWTH = 2
"""By how much the last third of the looks may be above the middle third: what is kept by age fills up in the first."""

COLUMNS = pa.schema(
    [("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64()), ("body", pa.binary()),
     ("store_timestamp", pa.timestamp("us", "UTC"))]
)  # fmt: skip
DAY = pa.field("store_timestamp_day", pa.date32())


def progress(text: str) -> None:
    """One line for whoever watches."""
    print(f"[{time.strftime('%H:%M:%S', time.gmtime())}] {text}", flush=True)


def table_of(form: str, directory: Path) -> LakeTable:
    """The table of a format."""
    name = "shop.orders" if form == "iceberg" else ""
    place = str(directory / form)
    return LakeTable(form, place, name, partition_by="day(store_timestamp)").checked()  # type: ignore[arg-type]


def rows_of(batch: int, form: str) -> pa.RecordBatch:
    """The rows of a batch, the same whenever it is written; their offsets are numbers without a gap."""
    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    times = [BEGAN + timedelta(seconds=BATCH_S * number / ROWS) for number in numbers]
    columns: list[list[Any]] = [["orders"] * ROWS, [0] * ROWS, [*numbers], [b"%d" % n for n in numbers], times]
    if form == "iceberg":
        return pa.record_batch(columns, schema=COLUMNS)
    days: list[date] = [at.date() for at in times]
    return pa.record_batch([*columns, days], schema=COLUMNS.append(DAY))


def next_batch(table: LakeTable) -> int:
    """The batch that the table waits for."""
    if table.format == "iceberg":
        return iceberg.last_batch(iceberg.catalog(table).load_table(table.name), WRITER) + 1
    return delta.last_batch(delta.opened(table), WRITER) + 1


def create(table: LakeTable) -> None:
    """Make the table unless it is there."""
    is_new = not committer(table).exists(table)
    committer(table).ensure(table, rows_of(0, table.format).schema)
    if is_new and table.format == "delta":
        kept = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
        delta.opened(table).alter.set_table_properties(dict.fromkeys(kept, LOG_KEPT))


def commit(table: LakeTable, batch: int) -> None:
    """Write and commit a batch as the sink does."""
    rows = rows_of(batch, table.format)
    target = Target(table.options(), rows.schema)
    target.commit([WrittenFiles(WRITER, target.write(iter([rows]), f"{WRITER}-{batch:08d}"))], batch)


def upkeep(table: LakeTable) -> None:
    """Do the work of ``pipeline maintain``."""
    later_ms = HOUR_MS - ORPHANS_S * 1000
    if table.format == "delta":
        work = Upkeep(compact=True, expire_ms=0)
    else:
        work = Upkeep(compact=True, expire_ms=later_ms + VERSIONS_S * 1000, orphans_ms=HOUR_MS)
    for _ in maintain(table, work, int(time.time() * 1000) + later_ms):
        pass


def keep_up(table: LakeTable, asked: Connection) -> None:
    """Maintain the table whenever asked, in a process of its own."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while asked.recv():
        began = time.monotonic()
        upkeep(table)
        asked.send(time.monotonic() - began)


def look(table: LakeTable, batch: int) -> dict[str, int]:
    """The state of the table now: live files, versions, and what lies on the disk."""
    live = committer(table).live_files(table)
    found = {"batch": batch, "files": len(live.whole) + len(live.bare)}
    if table.format == "iceberg":
        loaded = iceberg.catalog(table).load_table(table.name)
        found["versions"] = len(loaded.metadata.snapshots)
        root = Path(loaded.location().removeprefix("file://"))
        log, name = root / "metadata", "*"
        found["newest_metadata_bytes"] = Path(loaded.metadata_location.removeprefix("file://")).stat().st_size
    else:
        root, name = Path(table.location), "*.json"
        log = root / "_delta_log"
        found["versions"] = sum(1 for _ in log.glob(name))
    sizes = [path.stat().st_size for path in log.iterdir() if path.is_file()]
    data = [path for path in root.rglob("*.parquet") if path.parent != log]
    return found | {"metadata_files": len(sizes), "metadata_bytes": sum(sizes), "data_files": len(data)}


class Day:
    """One table and what was seen of it, over all runs."""

    def __init__(self, form: str, directory: Path) -> None:
        self.table = table_of(form, directory)
        self._notes = directory / f"{form}.json"
        self.looks: list[dict[str, int]] = []
        self.upkeep_s: list[float] = []
        if self._notes.exists():
            notes = json.loads(self._notes.read_text())
            self.looks, self.upkeep_s = notes["looks"], notes["upkeep_s"]

    def run(self, commits: int, until_s: float = 1e18) -> None:
        """Commit until the table has so many batches, or the monotonic clock is there; upkeep beside."""
        create(self.table)
        start = next_batch(self.table)
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        keeper = multiprocessing.get_context("spawn").Process(target=keep_up, args=(self.table, theirs), daemon=True)
        keeper.start()
        try:
            is_busy = False
            for batch in range(start, commits):
                if time.monotonic() >= until_s:
                    break
                commit(self.table, batch)
                if batch % REPEAT_EVERY == 0:
                    commit(self.table, batch)
                if is_busy and ours.poll():
                    is_busy = self._done(ours, batch)
                if batch % UPKEEP_EVERY == UPKEEP_EVERY - 1:
                    if is_busy:  # as a scheduler that does not start a second one
                        self._done(ours, batch)
                    ours.send(True)
                    is_busy = True
            if is_busy:
                self._done(ours, next_batch(self.table))
        finally:
            ours.send(False)
            keeper.join()

    def _done(self, asked: Connection, batch: int) -> bool:
        """Note an upkeep that is done, and what it left; return that none runs."""
        try:
            self.upkeep_s.append(asked.recv())
        except EOFError:
            raise AssertionError(f"upkeep of {self.table.called} failed beside batch {batch}") from None
        self.looks.append(look(self.table, batch))
        self._notes.write_text(json.dumps({"looks": self.looks, "upkeep_s": self.upkeep_s}))
        progress(f"{self.table.format}: upkeep {len(self.looks)} done in {self.upkeep_s[-1]:.1f} s, {self.looks[-1]}")
        return False

    def verdict(self) -> dict[str, Any]:
        """The rows of the table against those that were committed, and the most that was seen."""
        committed = next_batch(self.table)
        found: dict[str, Any] = {"commits": committed, "rows": committed * ROWS, "upkeeps": len(self.looks)}
        for reader in (by_duckdb, by_python):
            numbers = sorted(each["queue_offset"] for each in reader(self.table))
            seen = set(numbers)
            found["lost"] = found.get("lost", 0) + len(set(range(committed * ROWS)) - seen)
            found["twice"] = found.get("twice", 0) + len(numbers) - len(seen)
            found["unknown"] = found.get("unknown", 0) + len(seen - set(range(committed * ROWS)))
        for name in self.looks[0] if self.looks else ():
            if name != "batch":
                found[name] = {"most": max(each[name] for each in self.looks), "last": self.looks[-1][name]}
        found["slowest_upkeep_s"] = round(max(self.upkeep_s, default=0.0), 1)
        return found

    def faults(self, verdict: dict[str, Any]) -> list[str]:
        """The faults: rows, or figures that grow with the number of batches."""
        form = self.table.format
        wrong = [f"{form}: {verdict[kind]} {kind}" for kind in ("lost", "twice", "unknown") if verdict[kind]]
        third = len(self.looks) // 3
        bounded = ["files", "versions", "metadata_files", "metadata_bytes"]
        if form == "iceberg":
            bounded += ["newest_metadata_bytes", "data_files"]  # files of repeated batches stay in Delta for an hour
        for name in bounded if third >= 2 else ():
            early = max(each[name] for each in self.looks[third : 2 * third])
            late = max(each[name] for each in self.looks[-third:])
            if late > GROWTH * early:
                wrong.append(f"{form}: {name} grew from {early} to {late}")
        return wrong


def main() -> int:
    """Run a part of the day."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.small_batches", description=__doc__)
    parser.add_argument("--commits", type=int, default=A_DAY, help="batches over all runs")
    parser.add_argument("--seconds", type=float, default=1e9, help="ends one run")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--formats", default="iceberg,delta")
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given.directory.mkdir(parents=True, exist_ok=True)
    forms, began = given.formats.split(","), time.monotonic()
    verdict: dict[str, Any] = {"of_a_day": A_DAY}
    wrong: list[str] = []
    for place, form in enumerate(forms, 1):
        day = Day(form, given.directory.resolve())
        day.run(given.commits, began + given.seconds * place / len(forms))
        verdict[form] = day.verdict()
        wrong += day.faults(verdict[form])
    figures = {**verdict, "seconds": round(time.monotonic() - began), "faults": wrong}
    print(json.dumps(Ledger("small-batches", given.ledger).add(figures)))
    print("\n".join(wrong) or "0 lost, 0 twice; what grows is judged from six upkeeps of a table on, and did not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
