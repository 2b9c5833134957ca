"""The pipeline commands, as far as they go without a JVM."""

import json
import logging
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

from firearrow.cli.app import app
from firearrow.cli.jobs.audit_job import _print_report
from firearrow.cli.jobs.interruption import NOTICE
from firearrow.cli.jobs.job_options import pairs
from firearrow.cli.jobs.job_run import ProgressOutputs, explained, usual_master, watch
from firearrow.cli.pipeline import pipeline
from firearrow.errors import SettingsError
from firearrow.spark.lake import iceberg
from firearrow.spark.lake.table import LakeTable


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(pipeline, list(words))
    return done.exit_code, done.output


def test_wrong_words_are_explained_before_spark_starts() -> None:
    where = ("-n", "h:9876", "--topics", "t", "--location", "x", "--checkpoint", "c")
    assert said("archive", *where, "--format", "orc") == (
        2,
        "firearrow pipeline archive: --format is one of parquet, iceberg, delta, not 'orc'\n",
    )
    code, text = said("archive", *where, "--table", "orders")
    assert code == 2
    assert "like shop.orders" in text
    code, text = said("replay", "-n", "h:9876", "--job", "j")
    assert code == 2
    assert "say where to" in text
    code, text = said("archive", *where, "--option", "tags")
    assert code == 2
    assert "'tags' is not key=value" in text


TABLE = ("--format", "delta", "--location", "/x")
TYPOS = {
    "archive": ("-n", "h:9876", "--topics", "t", "--checkpoint", "/c", *TABLE, "--option", "maxOfsetsPerTrigger=1"),
    "backfill": ("--store", "/s", "--job", "j", *TABLE, "--option", "subscrib=t"),
    "replay": ("-n", "h:9876", "--job", "j", "--to-topic", "t", *TABLE, "--option", "batchByte=1"),
    "stats": ("-n", "h:9876", "--topics", "t", "--option", "startingTimestmp=1"),
}

MEANT = ("maxOffsetsPerTrigger", "subscribe", "batchBytes", "startingTimestamp")


@pytest.mark.parametrize(("command", "meant"), [*zip(TYPOS, MEANT, strict=True)])
def test_a_typo_in_an_option_is_told_in_one_line_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, command: str, meant: str
) -> None:
    monkeypatch.setattr("firearrow.spark.session.open_session", lambda *_: pytest.fail("Spark was started"))
    code, text = said(command, *TYPOS[command])
    assert code == 2
    assert text.startswith(f"firearrow pipeline {command}: ")
    assert len(text.splitlines()) == 1
    assert meant in text


NOBODY = ("-n", "127.0.0.1:1")
REST = ("--table", "a.b", "--catalog", "type=rest", "--catalog")
SQL = ("--location", "/x", "--table", "a.b", "--catalog", "type=sql", "--catalog")
KEYS = ("s3.endpoint=http://127.0.0.1:1", "s3.region=us-east-1", "s3.access-key-id=a", "s3.secret-access-key=b")
S3 = [word for key in KEYS for word in ("--storage", key)]
REGISTRY = ("--registry", "http://127.0.0.1:1")
EARLY = {
    "a name server without a port": (
        ("archive", "-n", "h", "--topics", "t", "--checkpoint", "/c", *TABLE),
        "host:port",
    ),
    "no table for an archive": (
        ("archive", "-n", "h:1", "--topics", "t", "--checkpoint", "/c", "--location", "/x"),
        "like",
    ),
    "a mode": (("archive", "-n", "h:1", "--topics", "t", "--checkpoint", "/c", *TABLE, "--mode", "upser"), "'upser'"),
    "a format of bodies": (("requarantine", *TABLE, "--body-format", "jsno"), "jsno"),
    "a key without upsert": (("requarantine", *TABLE, "--body-schema", "id long", "--key", "id"), "--mode upsert"),
    "an option of a store": (
        ("backfill", "--store", "/s", "--job", "j", *TABLE, "--option", "brokrName=b"),
        "brokerName",
    ),
    "a replay to nowhere": (("replay", "-n", "h:1", "--job", "j", "--store", "/s"), "say where to"),
    "an audit of no table": (("audit", "--receipts", "/r", "--format", "delta"), "needs a location"),
    "statistics of nothing": (("stats",), "say of what"),
    "statistics of two places": (("stats", "--store", "/s", *TABLE), "give one of them"),
    "statistics by a typo": (("stats", "--store", "/s", "--by", "tags"), "divided by tag, queue, hour, key"),
    "an option of a table": (("stats", *TABLE, "--option", "tags=a"), "--where"),
    "a table that is not there": (("maintain", *TABLE, "--compact"), "there is no delta table /x"),
    "an age": (("maintain", *TABLE, "--expire", "7"), "is not a duration"),
    "dead letters of nobody": (("dlq", "list", *NOBODY), "127.0.0.1:1"),
    "dead letters shown of nobody": (("dlq", "show", "g", *NOBODY), "127.0.0.1:1"),
    "a mirror of nobody": (
        ("mirror", "--topics", "t", "--to", "127.0.0.1:1", "--state", "/tmp/none", *NOBODY),
        "127.0.0.1:1",
    ),
    "a REST catalog that is not there": (
        ("maintain", *REST, "uri=http://127.0.0.1:1", "--compact"),
        "the catalog cannot be used",
    ),
    "a REST catalog without an address": (("maintain", *REST, "uri=nonsense", "--compact"), "uri=https://"),
    "a SQL catalog without an address": (("maintain", *SQL, "uri=nonsense", "--compact"), "uri=sqlite:"),
    "a SQL catalog in no directory": (
        ("maintain", *SQL, "uri=sqlite:////nonexistent/x.db", "--compact"),
        "there is no iceberg table a.b",
    ),
    "a SQL catalog that cannot be opened": (
        ("maintain", *SQL, "uri=sqlite:////proc", "--compact"),
        "unable to open database file",
    ),
    "a location that cannot be": (
        ("maintain", "--location", "/proc/nowhere", "--table", "a.b", "--compact"),
        "there is no iceberg table a.b at /proc/nowhere",
    ),
    "a store that refuses": (
        ("maintain", "--format", "delta", "--location", "s3://lake/x", *S3, "--compact"),
        "the storage cannot be used",
    ),
    "a registry that does not answer": (
        ("archive", *NOBODY, "--topics", "t", "--checkpoint", "/c", *TABLE, "--body-format", "avro", *REGISTRY),
        "the registry http://127.0.0.1:1 did not answer",
    ),
    "a file of Spark": (("precompile", "--spark-home", "/none"), "/none"),
}


@pytest.mark.parametrize("name", EARLY)
def test_a_mistake_is_told_in_three_lines_before_spark_starts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("firearrow.spark.session.open_session", lambda *_: pytest.fail("Spark was started"))
    words, says = EARLY[name]
    done = CliRunner().invoke(pipeline, list(words))
    assert done.exit_code == (1 if words[0] == "dlq" else 2), done.output
    assert 1 <= len(done.stderr.splitlines()) <= 3, done.stderr
    assert done.stderr.startswith(("firearrow pipeline ", "root dlq "))  # dlq says how it was called
    assert says in done.stderr
    assert "Traceback" not in done.output


def test_a_location_that_cannot_be_made_is_told_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table = LakeTable("iceberg", "/proc/nowhere", "a.b")
    with pytest.raises(typer.Exit) as ended, explained("archive"):
        iceberg.ensure(table, pa.schema([("id", pa.int64())]))
    assert ended.value.exit_code == 2
    text = capsys.readouterr().err
    assert "/proc/nowhere" in text
    assert "check --location" in text
    assert len(text.splitlines()) <= 3


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_upkeep_of_a_table_that_is_not_there_makes_nothing(tmp_path: Path, form: str) -> None:
    code, text = said("maintain", "--format", form, "--location", f"{tmp_path}/typo", "--table", "a.b", "--compact")
    assert (code, "there is no" in text) == (2, True)
    catalog = ("--catalog", "type=sql", "--catalog", f"uri=sqlite:///{tmp_path}/typo.db")
    code, text = said("maintain", "--location", f"{tmp_path}/typo", "--table", "a.b", *catalog, "--compact")
    assert (code, "there is no" in text) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_pairs_are_keys_and_values() -> None:
    assert pairs(None) == {}
    assert pairs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(SettingsError, match="'c' is not key=value"):
        pairs(["c"])


class Query:
    """Two batches, then the end."""

    id = "q"
    name = "archive-bronze"

    def __init__(self) -> None:
        self.status = {"isTriggerActive": False}
        self.recentProgress: list[object] = []

    def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802 - Spark's name
        number = len(self.recentProgress)
        report = {"name": "archive-bronze", "batchId": number, "numInputRows": 10, "batchDuration": 100, "sources": []}
        self.recentProgress.append(report if number else SimpleNamespace(json=json.dumps(report)))
        return number == 1


def test_every_batch_is_printed_once_and_metrics_are_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    metrics = tmp_path / "metrics.prom"
    watch([Query()], ProgressOutputs(metrics, say=lines.append))  # type: ignore[list-item]
    assert [line.split()[2] for line in lines[:-1]] == ["0", "1"]
    assert lines[-1].startswith("archive-bronze: 20 rows read, 20 written in 2 batches")
    assert 'firearrow_pipeline_batch{query="archive-bronze"} 1' in metrics.read_text()
    assert 'firearrow_pipeline_active{query="archive-bronze"} 0.0' in metrics.read_text()


class Interrupted(Query):
    """A signal in the first batch."""

    is_stopped = False
    signal = signal.SIGINT

    def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802 - Spark's name
        signal.raise_signal(self.signal)
        return False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_queries_in_order_and_quietly(
    capsys: pytest.CaptureFixture[str], number: signal.Signals, status: int
) -> None:
    query, lines, before = Interrupted(), list[str](), signal.getsignal(number)
    query.signal = number
    with pytest.raises(typer.Exit) as ended, explained("archive"):
        watch([query], ProgressOutputs(say=lines.append))  # type: ignore[list-item]
    assert ended.value.exit_code == status
    assert signal.getsignal(number) is before
    assert query.is_stopped
    assert len(lines) == 1
    assert capsys.readouterr().err == (
        "firearrow pipeline archive: interrupted; start it again to go on where it stopped\n"
    )


def test_an_interrupted_call_to_the_jvm_is_not_reported_twice(capsys: pytest.CaptureFixture[str]) -> None:
    def call() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            logging.exception(NOTICE)  # noqa: LOG015 - as py4j does
            raise

    with pytest.raises(typer.Exit) as ended, explained("backfill"):
        call()
    assert ended.value.exit_code == 143
    assert capsys.readouterr().err.splitlines() == [
        "firearrow pipeline backfill: interrupted; start it again to go on where it stopped"
    ]


class Py4JJavaError(Exception):
    """As Spark's gateway raises them."""

    __module__ = "py4j.protocol"


@pytest.mark.parametrize("verbose", [False, True])
def test_a_failure_of_spark_is_told_in_three_lines(capsys: pytest.CaptureFixture[str], *, verbose: bool) -> None:
    words = (
        "An error occurred\n" + "\tat java\n" * 50 + "firearrow.errors.NoRoute: no such topic: ordes\n" + "\tat x\n" * 9
    )
    with pytest.raises(typer.Exit) as ended, explained("archive", verbose=verbose):
        raise Py4JJavaError(words)
    assert ended.value.exit_code == 2
    said_lines = capsys.readouterr().err.splitlines()
    assert "firearrow pipeline archive: no such topic: ordes" in said_lines
    assert (len(said_lines) <= 3) != verbose


def test_a_failure_that_is_nobodys_mistake_ends_with_1_and_bugs_are_raised() -> None:
    with pytest.raises(typer.Exit) as ended, explained("archive"):
        raise Py4JJavaError("the JVM is gone")
    assert ended.value.exit_code == 1
    with pytest.raises(ZeroDivisionError), explained("archive"):
        raise ZeroDivisionError


def test_the_report_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("sent", "stored", "lost", "duplicated", "late", "reordered", "unread"), 7)
    _print_report([{"topic": "orders", "hour": "2026-01-01 00:00:00", **counts}])
    assert capsys.readouterr().out.splitlines()[1].split() == ["orders", "2026-01-01", "00:00:00", *["7"] * 7]


ARCHIVE = ("pipeline", "archive", "--topics", "t", "--location", "/x", "--checkpoint", "/c", "--format", "delta")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The arguments with which archives are started, in place of Spark."""
    from firearrow.spark.pipelines import archive

    found: list[dict[str, str]] = []
    monkeypatch.setattr("firearrow.cli.pipeline.session", lambda *_: nullcontext(SimpleNamespace(version="4.3.0")))
    monkeypatch.setattr("firearrow.cli.pipeline.watch", lambda *_: None)
    monkeypatch.setattr(archive, "start", lambda _spark, job, _trigger: found.append(dict(job.source)))
    for name in ("FIREARROW_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_what_firearrow_is_told_of_the_cluster_reaches_the_source(started: list[dict[str, str]]) -> None:
    told = ("--trust", "/ca.pem", "--access-key", "me", "--secret-key", "s")
    assert CliRunner().invoke(app, [*told, *ARCHIVE, "-n", "h:9876"]).exit_code == 0
    assert started == [
        {
            "nameServer": "h:9876", "subscribe": "t", "tls": "true", "tlsVerify": "true", "tlsCaFile": "/ca.pem",
            "accessKey": "me", "secretKey": "s",
        }
    ]  # fmt: skip


def test_tls_and_name_servers_of_the_environment_reach_the_source(started: list[dict[str, str]]) -> None:
    environment = {"FIREARROW_NAMESRV": "e:9876", "FIREARROW_TLS": "1"}
    assert CliRunner().invoke(app, list(ARCHIVE), env=environment).exit_code == 0
    assert started == [{"nameServer": "e:9876", "subscribe": "t", "tls": "true"}]
    assert CliRunner().invoke(app, [*ARCHIVE, "--option", "nameServer=o:1"], env=environment).exit_code == 0
    assert started[1]["nameServer"] == "o:1", "an option of the source counts more"
    assert CliRunner().invoke(app, ["-n", "b:2", *ARCHIVE], env=environment).exit_code == 0
    assert started[2]["nameServer"] == "b:2"


def test_without_name_servers_it_says_so(started: list[dict[str, str]]) -> None:
    done = CliRunner().invoke(app, list(ARCHIVE))
    assert done.exit_code == 1
    assert "no name server is given" in done.output
    assert started == []


def test_options_of_a_replay_reach_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    from firearrow.spark.pipelines import replay

    found: list[replay.Replay] = []
    monkeypatch.setattr("firearrow.cli.pipeline.session", lambda *_: nullcontext(None))
    monkeypatch.setattr("firearrow.cli.pipeline.history", lambda *_: None)
    monkeypatch.setattr(replay, "summary", lambda *_: SimpleNamespace(collect=list))
    monkeypatch.setattr(replay, "replay", lambda _rows, how: found.append(how))
    words = ["pipeline", "replay", "-n", "h:1", "--job", "j", "--to-topic", "t", "--store", "/s"]
    done = CliRunner().invoke(app, ["--tls", *words, "--option", "batchBytes=5"])
    assert done.exit_code == 0
    assert found[0].sink == {"nameServer": "h:1", "tls": "true", "batchBytes": "5"}
    assert done.output.startswith("replay j: 0 messages sent and acknowledged in ")


def test_spark_submit_is_given_a_python_file(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = said("script")
    assert code == 0
    assert Path(text.strip()).name == "__main__.py"
    done = subprocess.run([sys.executable, text.strip(), "pipeline", "--help"], capture_output=True, text=True)
    assert "archive" in done.stdout
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert usual_master() == "local[*]"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert usual_master() == "", "spark-submit has chosen"


def test_a_table_is_maintained_without_spark(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    where = ("maintain", "--format", "delta", "--location", str(tmp_path / "t"))
    for number in range(3):
        write_deltalake(str(tmp_path / "t"), pa.table({"id": [number, 7]}), mode="append")
    assert said(*where, "--compact") == (0, "compacted 3 files into 1\n")
    code, text = said(*where, "--delete-where", "id = 7", "--expire", "0s")
    assert code == 0
    assert text.splitlines() == [
        "deleted 3 rows: 1 files rewritten or removed",
        "expired old versions of the table: 4 files removed",
    ]
    assert sorted(DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    code, text = said(*where)
    assert (code, text) == (
        2,
        "firearrow pipeline maintain: nothing to do: give --compact, --delete-where, --ttl, --expire or --orphans\n",
    )
    code, text = said(*where, "--ttl", "90 days")
    assert code == 2
    assert "'90 days' is not a duration" in text
    code, text = said("maintain", "--location", str(tmp_path / "w"), "--table", "a.b", "--compact")
    assert (code, text) == (2, f"firearrow pipeline maintain: there is no iceberg table a.b at {tmp_path / 'w'}\n")
