"""The examples of deployment: the manifest by its structure, the words of the jobs by our commands."""

import ast
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from firearrow.cli.app import app
from firearrow.spark.pipelines import archive
from tests.scenario.blocks import ROOT

EXAMPLES = ROOT / "examples"
MANIFEST = EXAMPLES / "kubernetes" / "archive.yaml"
DAG = EXAMPLES / "airflow" / "orders_archive.py"


def manifest() -> dict[str, dict[str, Any]]:
    return {part["kind"]: part for part in yaml.safe_load_all(MANIFEST.read_text())}


def container() -> dict[str, Any]:
    (found,) = manifest()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> list[archive.Archive]:
    """What archives are started with, in place of Spark."""
    found: list[archive.Archive] = []
    monkeypatch.setattr("firearrow.cli.pipeline.session", lambda *_: nullcontext(SimpleNamespace(version="4.3.0")))
    monkeypatch.setattr("firearrow.cli.pipeline.watch", lambda *_: None)
    monkeypatch.setattr(archive, "start", lambda _spark, job, _trigger: found.append(job.checked()))
    for name in ("FIREARROW_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_manifest_names_what_it_has() -> None:
    found = manifest()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    assert [each["secretRef"]["name"] for each in container()["envFrom"]] == [found["Secret"]["metadata"]["name"]]
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert container()["readinessProbe"]["httpGet"]["port"] in ports
    assert f"--metrics-address=0.0.0.0:{ports['metrics']}" in container()["args"]
    assert found["Deployment"]["spec"]["strategy"]["type"] == "Recreate", "two pods would share a checkpoint"


def test_the_words_of_the_pod_start_an_archive(archives: list[archive.Archive]) -> None:
    environment = {each["name"]: each["value"] for each in container()["env"]}
    environment |= manifest()["Secret"]["stringData"]
    done = CliRunner().invoke(app, container()["args"], env=environment)
    assert done.exit_code == 0, done.output
    (job,) = archives
    assert job.source["nameServer"] == "rocketmq-namesrv:9876"
    assert set(job.table.storage_settings) == {
        "s3.endpoint", "s3.region", "s3.access-key-id", "s3.secret-access-key",
    }  # fmt: skip


def test_the_words_of_airflow_start_an_archive(archives: list[archive.Archive]) -> None:
    """Airflow itself is not run here: its installation takes longer than all of these tests."""
    constants = {}
    for line in ast.parse(DAG.read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            constants[line.targets[0].id] = ast.literal_eval(line.value)
    done = CliRunner().invoke(app, ["pipeline", *constants["ARCHIVE"], *constants["TABLE"]])
    assert done.exit_code == 0, done.output
    assert archives[0].checkpoint == "/lake/checkpoints/orders"
    done = CliRunner().invoke(app, ["pipeline", *constants["AUDIT"], *constants["TABLE"], "--help"])
    assert done.exit_code == 0, done.output
    assert constants["MISTAKE"] == 2
