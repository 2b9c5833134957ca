"""Mistakes that jobs find when Spark runs: told in at most three lines, with status 2; --verbose has the trace.

`test_jobs` makes some of them in processes of their own; mistakes that are found before are in ``unit/cli``.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from campaigns.rotation import this_turn
from firearrow.blocking import Message
from firearrow.cli import pipeline as commands
from firearrow.testing.ports import free_port
from tests.spark.serving import Served, send, served

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("jobs_in_this_session")]


class Mistake(NamedTuple):
    """A command with a mistake, and what must be said of it. Words in braces are filled in."""

    words: str
    says: str


TABLE = "--format delta --location {place}/t"
NO_TABLE = "--format delta --location {place}/none"
OTHER = "--format delta --location {place}/other"
NOBODY = "-n 127.0.0.1:{closed} --option connectTimeoutMs=1000"
ARCHIVE = "archive --topics orders --checkpoint {place}/c"
REPLAY = "replay --job j --to-topic copies"
FILES = "--store {store}"

MISTAKES = {
    "archive, name server": Mistake(f"{ARCHIVE} {TABLE} {NOBODY}", r"127.0.0.1:{closed} could not be reached"),
    "archive, topic": Mistake(f"archive --topics ordes --checkpoint {{place}}/c {TABLE} -n {{server}}", r"ordes"),
    "archive, schema of bodies": Mistake(f"{ARCHIVE} {TABLE} -n {{server}} --body-schema id_lnog", r"id_lnog"),
    "archive, schema of the table": Mistake(f"{ARCHIVE} {OTHER} -n {{server}}", r"do not fit table .*/other"),
    "archive, partition": Mistake(f"{ARCHIVE} {TABLE} -n {{server}} --partition-by tpoic", r"has a column tpoic"),
    "requarantine, table": Mistake(f"requarantine {NO_TABLE} --body-schema id:long", r"{place}/none"),
    "requarantine, schema": Mistake(f"requarantine {OTHER} --body-schema id_lnog", r"id_lnog"),
    "backfill, store": Mistake(f"backfill --store {{place}}/none --job j {TABLE}", r"{place}/none"),
    "backfill, schema": Mistake(f"backfill {FILES} --job j {OTHER}", r"do not fit table .*/other"),
    "replay, name server": Mistake(
        f"{REPLAY} {FILES} -n 127.0.0.1:{{closed}} --option retryTimeoutMs=1000", r"127.0.0.1:{closed}"
    ),
    "replay, table": Mistake(f"{REPLAY} {NO_TABLE} -n {{server}}", r"{place}/none"),
    "replay, condition": Mistake(f"{REPLAY} {FILES} -n {{server}} --where quueue_id=1", r"quueue_id"),
    "replay, schema": Mistake(f"{REPLAY} {OTHER} -n {{server}}", r"lack|cannot be resolved"),
    "audit, receipts": Mistake(f"audit --receipts {{place}}/none {FILES}", r"{place}/none"),
    "audit, table": Mistake(f"audit --receipts {{place}}/receipts.json {NO_TABLE}", r"{place}/none"),
    "audit, schema": Mistake(f"audit --receipts {{place}}/receipts.json {OTHER}", r"lack the columns unique_key"),
    "stats, name server": Mistake(f"stats --topics orders {NOBODY}", r"127.0.0.1:{closed} could not be reached"),
    "stats, topic": Mistake("stats --topics ordes -n {server}", r"ordes"),
    "stats, store": Mistake("stats --store {place}/none", r"{place}/none"),
    "stats, table": Mistake(f"stats {NO_TABLE}", r"{place}/none"),
    "stats, condition": Mistake(f"stats {FILES} --where quueue_id=1", r"quueue_id"),
    "stats, schema": Mistake(f"stats {OTHER}", r"lack the columns broker"),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        send(running.name_server, [Message.of("orders", json.dumps({"id": n}).encode()) for n in range(5)])
        yield running


@pytest.fixture
def filled(broker: Served, tmp_path: Path) -> dict[str, str]:
    """The values of the words in braces; tables that do not fit are made."""
    from deltalake import DeltaTable, Schema

    for name in ("other", "other_quarantine"):
        DeltaTable.create(str(tmp_path / name), schema=Schema.from_arrow(pa.schema([("topic", pa.int64())])))
    (tmp_path / "receipts.json").write_text('{"topic": "orders", "unique_key": "u"}\n')
    store = str(broker.directory / "store")
    return {"place": str(tmp_path), "server": broker.name_server, "closed": str(free_port()), "store": store}


@pytest.mark.rotating
@pytest.mark.parametrize("name", this_turn(list(MISTAKES), __name__))
def test_a_mistake_is_told_in_three_lines_with_status_2(filled: dict[str, str], name: str) -> None:
    mistake = MISTAKES[name]
    words = mistake.words.format(**filled).split()

    done = CliRunner().invoke(commands.pipeline, words)

    assert done.exit_code == 2, done.output
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 3, done.stderr
    assert lines[0].startswith(f"firearrow pipeline {words[0]}: ")
    assert re.search(mistake.says.format(**filled), lines[0]), done.stderr
    assert "Traceback" not in done.output


def test_the_trace_is_behind_verbose(filled: dict[str, str]) -> None:
    words = MISTAKES["archive, topic"].words.format(**filled).split()

    done = CliRunner().invoke(commands.pipeline, [*words, "--verbose"])

    assert done.exit_code == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("firearrow pipeline archive: ")
