"""The life of Apache's servers in our hands: ready when they say so, killed, paused, restarted, never left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from judges import ApacheBroker, ApacheNameServer, ChildFailed, Judge, Mqadmin, MqadminFailed, fresh
from judges.install.artifacts import POP_VERSION
from judges.server_process import wait_for
from judges.shared import SharedServers
from judges.wire import GET_CLUSTER, ask

GET_RUNTIME = 28

pytestmark = pytest.mark.apache


def test_broker_is_registered_when_ready(apache_broker: ApacheBroker, apache_nameserver: ApacheNameServer) -> None:
    assert apache_broker.address.encode() in ask(apache_nameserver.address, GET_CLUSTER).body


def test_the_judge_of_pop_is_a_broker_of_its_version() -> None:
    with ApacheNameServer(POP_VERSION) as names, ApacheBroker(POP_VERSION, name_servers=[names.address]) as broker:
        topic = broker.create_topic(fresh("pop"))
        described = ask(broker.address, GET_RUNTIME)
    assert described.code == 0
    assert b'"brokerVersionDesc":"V5_5_1"' in described.body, described.body
    assert topic


def test_mqadmin_runs_many_commands(
    mqadmin: Mqadmin, apache_broker: ApacheBroker, apache_nameserver: ApacheNameServer
) -> None:
    topic = apache_broker.create_topic(fresh("admin"))
    assert "broker-a" in mqadmin.run(f"clusterList -n {apache_nameserver.address}")
    assert topic in mqadmin.run(f"topicList -n {apache_nameserver.address}").split()
    again = mqadmin.run(f"topicList -n {apache_nameserver.address}").split()
    assert len(again) == len(set(again))


def test_mqadmin_survives_a_command_that_exits(mqadmin: Mqadmin, apache_nameserver: ApacheNameServer) -> None:
    refused = mqadmin.execute("topicList --nonsense")
    assert refused.exit_status == 1
    assert "usage: mqadmin topicList" in refused.out
    assert mqadmin.run(f"topicList -n {apache_nameserver.address}")


def test_mqadmin_raises_what_a_command_threw(mqadmin: Mqadmin, apache_nameserver: ApacheNameServer) -> None:
    with pytest.raises(MqadminFailed, match="SubCommandException"):
        mqadmin.run(f"topicRoute -n {apache_nameserver.address} -t nowhere")


def test_name_server_is_paused_and_resumed_and_restarted() -> None:
    with ApacheNameServer("4.9.7") as names:
        names.pause()
        with pytest.raises(TimeoutError):
            ask(names.address, GET_CLUSTER, timeout_seconds=0.2)
        names.resume()
        wait_for(lambda: ask(names.address, GET_CLUSTER).code == 0, "an answer after SIGCONT")
        names.kill()
        with pytest.raises(OSError, match="refused"):
            ask(names.address, GET_CLUSTER)
        names.start()
        home = names.home
    assert not home.exists()


def test_failed_start_shows_the_log() -> None:
    with pytest.raises(ChildFailed, match=r"Unrecognized VM option"):
        ApacheNameServer("4.9.7", flags=["-XX:NoSuchFlag"]).__enter__()


def test_consumers_end_with_the_test_that_started_them(shared_servers: SharedServers) -> None:
    process = shared_servers.client("go")
    judge: Judge = process.at(shared_servers.name_server("5.5.0").address)
    topic = shared_servers.broker("5.5.0").create_topic(fresh("reset"))
    running = judge.subscribe(topic)
    process.reset()
    with pytest.raises(Exception, match="no running consumer"):
        running.so_far()


def test_nothing_outlives_a_killed_test_process(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from judges import ApacheNameServer\n"
        "names = ApacheNameServer('4.9.7').start()\n"
        "names.pause()\n"
        "print(names.address, names.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", script]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where its homes are, which nobody is left to remove
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=environment)
    _, pid = done.stdout.split()
    wait_for(lambda: not _runs(int(pid)), "the guard to kill what was left")


def _runs(pid: int) -> bool:
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout.strip() != b""
