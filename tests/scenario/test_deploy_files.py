"""The files of ``examples/deploy``: units by systemd, manifests by Kubernetes' schemas, all words by our commands.

The modes are started by ``tests/integration/broker/test_deployment_modes.py``.
"""

import configparser
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from firearrow.broker.settings.config import BrokerSettings
from firearrow.cli.app import app
from firearrow.cli.environment import unread
from tests.scenario.blocks import ROOT

DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = DEPLOY / "container" / "compose.yaml"
MANIFEST = DEPLOY / "kubernetes" / "firearrow.yaml"
PROGRAM = "/opt/firearrow/bin/firearrow"
KUBERNETES = ("1.30", kubernetes_validate.latest_version())
GRACE_S = 90
PORTS = {"broker": 5557, "nameserver": 5556}
"""The port at which servers show metrics and health, in every file and on the pages."""
FROM_KUBERNETES = "10.0.0.7"
"""The placeholder of a value that Kubernetes fills in."""


class Start(NamedTuple):
    """The command that starts a server, and the time that it has to end."""

    where: str
    words: list[str]
    environment: dict[str, str]
    grace_s: int


def unit(file: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(file)
    return parser["Service"]


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def of_units() -> list[Start]:
    found = []
    for file in UNITS:
        service = unit(file)
        program, *words = shlex.split(service["ExecStart"])
        assert program == PROGRAM
        found.append(Start(file.name, words, {}, int(service.get("TimeoutStopSec", "90"))))
    return found


def of_compose() -> list[Start]:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    return [
        Start(name, each["command"], each.get("environment", {}), int(each.get("stop_grace_period", "10s")[:-1]))
        for name, each in services.items()
    ]


def of_kubernetes() -> list[Start]:
    found = []
    for each in documents():
        if each["kind"] == "StatefulSet":
            pod = each["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            environment = {item["name"]: item.get("value", FROM_KUBERNETES) for item in container.get("env", [])}
            name = each["metadata"]["name"]
            found.append(Start(name, container["args"], environment, pod["terminationGracePeriodSeconds"]))
    return found


STARTS = [*of_units(), *of_compose(), *of_kubernetes()]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.where)
def test_the_words_start_a_server(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served: list[dict[str, Any]] = []
    for role in ("broker", "nameserver"):
        monkeypatch.setattr(
            f"firearrow.cli.{role}.serve", lambda *given, **named: served.append({"of": given, **named})
        )
    conf = tmp_path / "broker.conf"
    conf.write_text((DEPLOY / "several-masters" / "broker-a.conf").read_text())
    words = [str(conf) if word == "/etc/firearrow/broker.conf" else word for word in start.words]
    done = CliRunner().invoke(app, words, env=start.environment)
    assert done.exit_code == 0, done.output
    assert "warning" not in done.output
    assert unread(start.environment) == []
    (call,) = served
    operation = call["of"][0].operation
    port = PORTS["broker" if isinstance(call["of"][0], BrokerSettings) else "nameserver"]
    assert (operation.metrics_exporter_type.value, operation.metrics_prom_exporter_port) == ("PROM", port)
    if isinstance(call["of"][0], BrokerSettings):
        broker = call["of"][0].broker
        assert call["drains"]
        assert broker.namesrv_addr.count(";") == 1
        assert start.grace_s >= GRACE_S > 2 * broker.drain_wait_seconds


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_is_taken_by_systemd(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / file.name
    copy.write_text(file.read_text().replace(PROGRAM, "/bin/true"))
    words = ["systemd-analyze", "verify", "--man=no", str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert unit(file)["Type"] == "notify"
    assert int(unit(file)["LimitNOFILE"]) >= 65_535


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_are_what_kubernetes_takes(version: str) -> None:
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_manifests_fit_together() -> None:
    by_kind: dict[str, dict[str, dict[str, Any]]] = {}
    for each in documents():
        by_kind.setdefault(each["kind"], {})[each["metadata"]["name"]] = each["spec"]
    names = set(by_kind["StatefulSet"])
    assert names == set(by_kind["Service"]) == set(by_kind["PodDisruptionBudget"])
    for name, stateful in by_kind["StatefulSet"].items():
        labels = stateful["template"]["metadata"]["labels"]
        budget, service = by_kind["PodDisruptionBudget"][name], by_kind["Service"][name]
        assert stateful["selector"]["matchLabels"] == labels == service["selector"]
        assert budget["selector"]["matchLabels"] == labels
        assert stateful["serviceName"] == name
        (container,) = stateful["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        probes = [container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]
        assert [probe["path"] for probe in probes] == ["/health/ready", "/health/live"]
        assert {probe["port"] for probe in probes} <= ports
        (claim,) = stateful["volumeClaimTemplates"]
        assert [mount["name"] for mount in container["volumeMounts"]] == [claim["metadata"]["name"]]
    servers = by_kind["StatefulSet"]["firearrow-nameserver"]
    (broker,) = by_kind["StatefulSet"]["firearrow-broker"]["template"]["spec"]["containers"]
    (told,) = [each["value"] for each in broker["env"] if each["name"] == "FIREARROW_NAMESRV_ADDR"]
    hosts = [f"firearrow-nameserver-{number}.firearrow-nameserver:9876" for number in range(servers["replicas"])]
    assert told.split(";") == hosts


def test_ports_are_those_of_the_commands_and_of_the_pages() -> None:
    for each in documents():
        if each["kind"] == "Service":
            role = each["metadata"]["name"].removeprefix("firearrow-")
            assert {port["port"] for port in each["spec"]["ports"] if port["name"] == "metrics"} == {PORTS[role]}
        if each["kind"] == "StatefulSet":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == "metrics"]
            assert port == PORTS[container["name"]]
    check = yaml.safe_load(COMPOSE.read_text())["x-broker"]["healthcheck"]["test"][-1]
    assert f":{PORTS['broker']}/health/live" in check
    (exposed,) = re.findall(r"^EXPOSE (.+)$", (DEPLOY / "container" / "Containerfile").read_text(), re.MULTILINE)
    assert {str(port) for port in PORTS.values()} <= set(exposed.split())
    (targets,) = re.findall(r'targets: \[("broker-1.+?)\]', (ROOT / "docs/how-to/monitor.md").read_text())
    roles = {"broker": "broker", "names": "nameserver"}
    for role, port in re.findall(r'"(\w+)-\d:(\d+)"', targets):
        assert int(port) == PORTS[roles[role]]


def test_all_of_them_run_the_same_image() -> None:
    build = (DEPLOY / "container" / "build").read_text()
    (built,) = re.findall(r"IMAGE:-(\S+)\}", build)
    images = set(re.findall(r"image: (\S+)", COMPOSE.read_text() + MANIFEST.read_text()))
    (version,) = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert images == {built} == {f"localhost/firearrow:{version}"}
