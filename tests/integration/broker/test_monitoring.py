"""Dashboard and alerts, judged by a real Prometheus that scrapes a real broker and name server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from firearrow.testing.ports import free_broker_port, free_port
from judges.server_process import wait_for
from judges.wire import ask

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples"
MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
SEND, PULL, COMMIT, SEND_BACK, UPDATE_SETTINGS = 310, 11, 15, 36, 25
PATIENCE_S = 240.0
SHORTER = (
    (r"> 600000", "> 3000"),
    (r"> 0\.8", "> 0.5"),
    (r"> 256e6", "> 2e5"),
    (r"for: \dm", "for: 1s"),
    (r"\[\d+m\]", "[20s]"),
    (r"offset \d+m", "offset 20s"),
)
FAULTS = """
import errno, os, subprocess, time

synced = os.fdatasync

def no_process(*_words, **_options):
    raise OSError("syncs stay in the broker's process, where they can be slow or fail")

def fdatasync(descriptor):
    if os.path.exists(os.environ["FAULTS"] + "/slow"):
        time.sleep(0.7)
    if os.path.exists(os.environ["FAULTS"] + "/broken"):
        raise OSError(errno.EIO, "a fault of the test")
    synced(descriptor)

os.fdatasync, subprocess.Popen = fdatasync, no_process
"""
"""Runs in every Python process of a broker: its disk is slow, or fails, while a file says so."""
CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: firearrow
    static_configs: [{{targets: [{targets}]}}]
"""


class Site:
    """A name server, a broker whose disk is a small tmpfs of its own, and Prometheus."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names, self.broker = free_port(), free_broker_port()
        self.names_metrics, self.broker_metrics, self.prometheus = free_port(), free_port(), free_port()
        self.slave_metrics = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "FAULTS": str(directory), "PYTHONPATH": f"{directory}:{':'.join(sys.path)}"}
        # A slave that is stopped stays connected, however long it takes until its alert fires.
        self.more_settings = f"brokerName=broker-a\nhaListenPort={free_port()}\nhaHousekeepingInterval=600000\n"
        (directory / "sitecustomize.py").write_text(FAULTS)
        (directory / "store").mkdir()

    def start(self, name: str, *words: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start_names(self) -> None:
        names = ["--port", str(self.names), "--bind", "127.0.0.1", "--directory", f"{self.directory}/names"]
        words = [sys.executable, "-c", MAIN, "nameserver", *names, "--metrics-port", str(self.names_metrics)]
        self.start("names", *words)

    def start_broker(self) -> None:
        settings = self.directory / "broker.conf"
        settings.write_text(
            "mappedFileSizeCommitLog=4194304\ncleanResourceInterval=200\ncleanFileForciblyEnable=false\n"
            + self.more_settings
        )
        where = ["-n", f"127.0.0.1:{self.names}", "--port", str(self.broker), "--store", f"{self.directory}/store"]
        command = [sys.executable, "-c", MAIN, "broker", *where, "--bind", "127.0.0.1", "--advertise", "127.0.0.1"]
        command += ["-c", str(settings), "--metrics-port", str(self.broker_metrics)]
        mount = f'mount -t tmpfs -o size=96m none "{self.directory}/store" && exec "$@"'
        self.start("broker", "unshare", "--mount", "sh", "-c", mount, "sh", *command)
        wait_for(lambda: self.fetch(self.broker_metrics, "/health/ready") == "ready\n", "a ready broker", PATIENCE_S)

    def kill_broker(self) -> None:
        self.kill("broker")

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def start_slave(self) -> None:
        """Start a slave of the broker, on a disk of the machine."""
        settings = self.directory / "slave.conf"
        settings.write_text("brokerName=broker-a\nbrokerId=1\nbrokerRole=SLAVE\nmappedFileSizeCommitLog=4194304\n")
        where = ["-n", f"127.0.0.1:{self.names}", "--port", str(free_broker_port()), "-c", str(settings)]
        where += ["--store", f"{self.directory}/copy", "--bind", "127.0.0.1", "--advertise", "127.0.0.1"]
        where += ["--metrics-port", str(self.slave_metrics)]
        self.start("slave", sys.executable, "-c", MAIN, "broker", *where)

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Let the broker's disk be slow, or fail."""
        (self.directory / name).touch()
        try:
            yield
        finally:
            (self.directory / name).unlink()

    def change(self, key: str, value: object) -> None:
        assert self.ask(UPDATE_SETTINGS, {}, f"{key}={value}\n".encode()) == 0

    def crowd(self) -> None:
        """Send from many tasks at once, whatever comes of it."""
        words = [
            "bench",
            "produce",
            "orders",
            "-n",
            f"127.0.0.1:{self.names}",
            "--count",
            "4000",
            "--in-flight",
            "1000",
        ]
        subprocess.run([sys.executable, "-c", MAIN, *words], check=False, capture_output=True, timeout=PATIENCE_S)

    @property
    def disk(self) -> Path:
        """The broker's disk, seen from outside of its mount namespace."""
        return Path(f"/proc/{self.processes['broker'].pid}/root{self.directory}/store")

    def fetch(self, port: int, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def fetch_refused(self, port: int, path: str) -> str:
        """Return a page that is answered with an error, such as that of a broker that is not ready."""
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5)
        return str(refused.value.read().decode())

    def query(self, expression: str) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression})
        found = self.fetch(self.prometheus, f"/api/v1/query?{asked}")
        return list(json.loads(found)["data"]["result"]) if found else []

    def shown(self, expression: str) -> list[float]:
        """Return the values that Prometheus shows for the topic."""
        return [float(found["value"][1]) for found in self.query(expression) if found["metric"]["topic"] == "orders"]

    def firing(self) -> set[str]:
        found = self.fetch(self.prometheus, "/api/v1/alerts")
        alerts = json.loads(found)["data"]["alerts"] if found else []
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        return ask(f"127.0.0.1:{self.broker}", code, fields, body).code

    def send(self, body: bytes) -> int:
        """Send a message; return the code of its answer."""
        numbers = dict.fromkeys("efgh", "0")
        return self.ask(SEND, {"a": "P", "b": "orders", "c": "TBW102", "d": "4", **numbers}, body)

    def store(self, body: bytes, count: int) -> None:
        """Send messages, each until the broker takes it: one that gets no core in time refuses some as busy."""
        for _ in range(count):
            wait_for(lambda: self.send(body) == 0, "a stored message", PATIENCE_S)

    def load(self) -> None:
        """Send and consume a little; leave nothing unread."""
        self.store(b"hello", 20)
        fields = {
            "consumerGroup": "g", "topic": "orders", "queueId": "0", "maxMsgNums": "32", "sysFlag": "4",
            "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        }  # fmt: skip
        self.ask(PULL, {**fields, "queueOffset": "0"})
        self.commit(1 << 40)

    def commit(self, offset: int) -> None:
        place = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
        end = int(self.stat("rocketmq_messages_in_total")) if offset else 0
        self.ask(COMMIT, {**place, "commitOffset": str(min(offset, end))})

    def page(self) -> str:
        """Return the metrics of the broker; a busy machine does not answer every time."""
        ends = time.monotonic() + PATIENCE_S
        while not (page := self.fetch(self.broker_metrics, "/metrics")):
            assert time.monotonic() < ends, f"no metrics of the broker; {self.directory}"
        return page

    def stat(self, name: str) -> float:
        page = self.page()
        found = re.search(rf'^{name}{{[^}}]*topic="orders"[^}}]*}} (\S+)$', page, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def until(self, wanted: Callable[[], bool], *, busy: bool = True) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not wanted():
            assert time.monotonic() < ends, f"firing: {self.firing()}; {self.directory}"
            if busy:
                self.load()
            time.sleep(0.2)


@contextmanager
def a_site(directory: Path, *, with_slave: bool = False) -> Iterator[Site]:
    site = Site(directory)
    rules = (EXAMPLES / "prometheus" / "broker-alerts.yml").read_text()
    for long, short in SHORTER:
        rules, count = re.subn(long, short, rules)
        assert count, f"the rules have no {long}"
    (directory / "rules.yml").write_text(rules)
    ports = [site.broker_metrics, site.names_metrics, *([site.slave_metrics] if with_slave else [])]
    targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
    (directory / "prometheus.yml").write_text(CONFIG.format(targets=targets))
    with ExitStack() as stack:
        stack.callback(site.end)
        site.start_names()
        site.start_broker()
        files = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
        site.start("prometheus", "prometheus", *files, f"--web.listen-address=127.0.0.1:{site.prometheus}")
        yield site


def queries() -> list[str]:
    panels = json.loads((EXAMPLES / "grafana" / "firearrow.json").read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [expression.replace("$__rate_interval", "20s") for expression in found]


def test_promtool_accepts_the_rules() -> None:
    words = ["promtool", "check", "rules", "broker-alerts.yml"]
    ran = subprocess.run(words, cwd=EXAMPLES / "prometheus", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_query_has_data_and_alerts_fire_and_clear(tmp_path: Path) -> None:
    with a_site(tmp_path) as site:
        site.until(lambda: all(site.query(expression) for expression in queries()))
        site.until(lambda: not site.firing())

        site.commit(0)  # the group goes back to the first message and reads nothing
        site.until(lambda: "ConsumerBehind" in site.firing(), busy=False)
        site.load()
        site.until(lambda: "ConsumerBehind" not in site.firing())

        assert site.ask(SEND_BACK, {"group": "g", "offset": "0", "delayLevel": "-1", "originTopic": "orders"}) == 0
        site.until(lambda: "DeadLetters" in site.firing(), busy=False)
        site.until(lambda: "DeadLetters" not in site.firing())

        disk = os.statvfs(site.disk)
        (site.disk / "ballast").write_bytes(bytes(disk.f_bsize * (disk.f_bavail - disk.f_blocks // 20)))
        site.until(lambda: {"DiskFilling", "SendsRefusedForRoom"} <= site.firing(), busy=False)
        assert site.fetch(site.broker_metrics, "/health/live") == "live\n"
        assert site.fetch(site.broker_metrics, "/health/ready") == ""
        (site.disk / "ballast").unlink()
        site.until(lambda: not {"DiskFilling", "SendsRefusedForRoom"} & site.firing(), busy=False)

        site.kill_broker()
        site.until(lambda: "ServerDown" in site.firing(), busy=False)
        site.start_broker()
        site.until(lambda: "ServerDown" not in site.firing(), busy=False)


def test_alerts_of_a_disk_and_of_a_crowd_fire_and_clear(tmp_path: Path) -> None:
    with a_site(tmp_path) as site:
        site.load()
        site.until(lambda: not site.firing())
        with site.fault("broken"):
            site.send(b"hello")
            site.until(lambda: "StoreFenced" in site.firing(), busy=False)
            assert "sync" in site.fetch_refused(site.broker_metrics, "/health/ready")
        site.kill_broker()
        site.start_broker()
        site.until(lambda: "StoreFenced" not in site.firing(), busy=False)

        site.change("waitTimeMillsInSendQueue", 1)
        site.crowd()
        site.until(lambda: "SendsRefusedAsBusy" in site.firing(), busy=False)
        site.change("waitTimeMillsInSendQueue", 200)
        site.until(lambda: "SendsRefusedAsBusy" not in site.firing(), busy=False)

        with site.fault("slow"):
            site.until(lambda: "SyncsSlow" in site.firing())
        site.until(lambda: "SyncsSlow" not in site.firing())


def test_alerts_of_a_replicated_pair_fire_and_clear(tmp_path: Path) -> None:
    with a_site(tmp_path, with_slave=True) as site:
        site.load()
        site.start_slave()
        site.until(lambda: bool(site.query("firearrow_slaves == 1")), busy=False)
        site.commit(0)
        behind = [site.stat("rocketmq_consumer_lag_messages")]
        site.until(lambda: site.shown('rocketmq_consumer_lag_messages{topic="orders"}') == 2 * behind, busy=False)
        (lag,) = [expression for expression in queries() if "lag_messages" in expression]
        assert site.shown(lag) == behind, "the slave's lag counts once more"
        site.load()
        site.until(lambda: not site.firing(), busy=False)

        site.processes["slave"].send_signal(signal.SIGSTOP)
        site.store(bytes(8192), 100)
        site.until(lambda: "SlaveBehind" in site.firing(), busy=False)
        site.processes["slave"].send_signal(signal.SIGCONT)
        site.until(lambda: "SlaveBehind" not in site.firing(), busy=False)

        site.kill_broker()
        site.until(lambda: {"MasterMissing", "SlaveDisconnected"} <= site.firing(), busy=False)
        site.start_broker()
        site.until(lambda: not {"MasterMissing", "SlaveDisconnected"} & site.firing(), busy=False)

        site.kill("names")
        site.until(lambda: "RegistrationFailing" in site.firing(), busy=False)
        site.start_names()
        site.until(lambda: "RegistrationFailing" not in site.firing(), busy=False)


def test_the_page_has_a_row_for_every_alert() -> None:
    rules = re.findall(r"- alert: (\w+)", (EXAMPLES / "prometheus" / "broker-alerts.yml").read_text())
    page = (EXAMPLES.parent / "docs" / "how-to" / "monitor.md").read_text()
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE) == rules
