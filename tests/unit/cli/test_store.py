"""``firearrow store inspect`` and ``dump`` on a real directory."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from campaigns.store.ours import opened
from firearrow.cli.app import app
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.config import LogConfig
from firearrow.store.placement import FLUSHED
from firearrow.store.recovery.open_log import open_log
from firearrow.store.running_log import RunningLog
from firearrow.store.views.views import Views, ViewsConfig
from tests.property.store.shop import SMALL_INDEX, SMALL_QUEUES
from tests.simulation.store.kit import draft
from tests.unit.store.begun import Begun

RUNNER = CliRunner()


async def _fill(root: Path) -> None:
    disk = RealDisk(str(root))
    settings = LogConfig(mapped_file_size_commit_log=8192)
    opened = await open_log(disk, SystemClock(), settings, "boot")
    views = await Views.open(disk, SystemClock(), ViewsConfig(queues=SMALL_QUEUES, index=SMALL_INDEX), opened)
    running = RunningLog(disk, SystemClock(), settings, opened, views.dispatch)
    for number in range(30):
        properties = f"KEYS\x01key-{number}\x02TAGS\x01a\x02"
        running.log.append(
            views.queues.tail_of("Orders", number % 2), draft(b"hello \xff", "Orders", number % 2, properties)
        )
    await running.flush()

    async def flushed(offset: int) -> None:
        del offset

    await views.flush(flushed, closed=True)
    views.close()
    await running.close()
    await disk.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    asyncio.run(_fill(tmp_path))
    return tmp_path


def test_inspect_prints_tables(store: Path) -> None:
    result = RUNNER.invoke(app, ["store", "inspect", str(store), "--verify"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for expected in ("closed in order", "Log files", "Queues", "Orders", "30 records", "nothing is wrong"):
        assert expected in result.output


def test_inspect_counts_what_apache_has_begun(tmp_path: Path) -> None:
    async def fill() -> None:
        disk = RealDisk(str(tmp_path))
        async with opened(tmp_path) as store:
            Begun(store, disk).half()
            await store.reached(store.log.tail, FLUSHED)
        await disk.close()

    asyncio.run(fill())
    result = RUNNER.invoke(app, ["store", "inspect", str(tmp_path)], env={"COLUMNS": "200"})
    assert "not finished: 1 half message " in result.output
    result = RUNNER.invoke(app, ["store", "inspect", str(tmp_path), "--json"])
    counts = json.loads(result.stdout)["overview"]["pending"]
    assert counts == {"half_messages": 1, "timers": 0, "check_points": 0, "batched_ops": 0}


def test_inspect_prints_json(store: Path) -> None:
    result = RUNNER.invoke(app, ["store", "inspect", str(store), "--verify", "--json"])
    report = json.loads(result.stdout)
    assert report["verified"]["records"] == report["verified"]["whole"] == 30
    assert [queue["end"] for queue in report["overview"]["queues"]] == [15, 15]


def test_inspect_ends_with_1_when_something_is_wrong(store: Path) -> None:
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[500] ^= 1
    log.write_bytes(data)
    result = RUNNER.invoke(app, ["store", "inspect", str(store), "--verify"], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "Bad" in result.output


def test_dump_prints_records(store: Path) -> None:
    result = RUNNER.invoke(app, ["store", "dump", str(store), "--limit", "3"])
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("0 +")
    assert "Orders/0/0" in lines[0]
    assert "KEYS='key-0'" in lines[0]
    assert "hello" in lines[0]


def test_dump_prints_json_lines_of_one_topic(store: Path) -> None:
    result = RUNNER.invoke(app, ["store", "dump", str(store), "--json", "--topic", "Orders"])
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["queueOffset"] for record in records] == [number // 2 for number in range(30)]
    assert records[7]["properties"]["KEYS"] == "key-7"
    assert RUNNER.invoke(app, ["store", "dump", str(store), "--topic", "Other"]).stdout == ""


def test_a_directory_that_is_no_store_is_refused_with_advice(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["store", "inspect", str(tmp_path)])
    assert result.exit_code == 1
    assert "name the root of a store" in result.output


@pytest.mark.parametrize(("version", "code"), [("4.9.7", 1), ("5.5.0", 0), ("", 0), ("7", 2)])
def test_inspect_says_whether_a_version_may_take_it_over(tmp_path: Path, version: str, code: int) -> None:
    async def fill() -> None:
        disk = RealDisk(str(tmp_path))
        async with opened(tmp_path) as store:
            begun = Begun(store, disk)
            begun.half()
            begun.end(begun.half())
            await store.reached(store.log.tail, FLUSHED)
        await disk.close()

    asyncio.run(fill())
    arguments = ["store", "inspect", str(tmp_path), *(["--for", version] if version else [])]
    result = RUNNER.invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert ("op messages name several half messages" in result.output) == (version == "4.9.7")
    assert ("is not a version" in result.output) == (version == "7")


@pytest.mark.parametrize(("version", "code"), [("4.9.7", 1), ("5.5.0", 0)])
def test_a_directory_that_was_not_closed_is_not_for_an_old_broker(store: Path, version: str, code: int) -> None:
    (store / "abort").touch()
    result = RUNNER.invoke(app, ["store", "inspect", str(store), "--for", version], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert ("was not closed in order" in result.output) == bool(code)
