"""Changes that fail halfway say which half is done, and can be made again: one of two name servers, of two brokers."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from firearrow.testing.blocking import Cluster
from firearrow.testing.ports import free_port
from tests.interop.cli import operating
from tests.interop.cli.commands import MAIN
from tests.interop.cli.operating import Inside, perm

pytestmark = pytest.mark.real

BROKERS = ("broker-a", "broker-b")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=BROKERS) as running:
        yield running


@pytest.fixture
def command(cluster: Cluster) -> Inside:
    return Inside(cluster.address)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_name_server_that_is_away_is_named_and_the_other_one_changed(cluster: Cluster, is_first: bool) -> None:
    away = f"127.0.0.1:{free_port()}"
    both = Inside(";".join([away, cluster.address] if is_first else [cluster.address, away]))
    said = both.fails("nameserver", "kv", "set", "HALVES", f"key-{is_first}", "text")
    assert f"done at name server {cluster.address}, but not at name server {away}: cannot connect" in said
    assert "Nothing was changed" not in said
    there = Inside(cluster.address)
    assert there.json("nameserver", "kv", "list", "HALVES")[cluster.address][f"key-{is_first}"] == "text"


def test_a_broker_loses_its_permission_where_name_servers_answer(cluster: Cluster, command: Inside) -> None:
    command("topic", "create", "permitted", "--queues", "1", "--broker", "broker-a")
    away = f"127.0.0.1:{free_port()}"
    said = Inside(f"{away};{cluster.address}").fails("broker", "wipe-write", "broker-a")
    assert f"done at name server {cluster.address}, but not at name server {away}" in said
    assert perm(command, "permitted") == "R--"
    (address,) = [each["address"] for each in command.json("broker", "list") if each["broker"] == "broker-a"]
    assert "broker-a takes messages of" in command("broker", "restore-write", address)
    assert perm(command, "permitted") == "RW-"


def started(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    environment = Inside(cluster.address).environment
    every = [sys.executable, "-c", MAIN, *words]
    return subprocess.Popen(every, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_broker_that_dies_is_not_drained() -> None:
    with (
        Cluster(brokers=["broker-c"]) as running,
        started(running, "broker", "drain", "broker-c", "--wait", "2s", "--timeout", "60s") as draining,
    ):
        assert draining.stdout is not None
        assert "takes no more messages" in draining.stdout.readline()
        running.kill_broker("broker-c")
        printed, said = draining.communicate(timeout=operating.SECONDS)
    assert "is drained" not in printed
    assert "broker-c takes no more messages by the name servers, but does not answer" in said
    assert draining.returncode == 1


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("broker", "drain", "broker-b"), "firearrow broker restore-write broker-b undoes that"),
        (("topic", "shrink", "left", "--queues", "1"), "give the same command again to go on"),
    ],
)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_says_what_stays_changed(
    cluster: Cluster, command: Inside, words: tuple[str, ...], state: str, number: signal.Signals, status: int
) -> None:
    if command.process("topic", "create", "left", "--queues", "2").returncode:
        command("topic", "update", "left", "--queues", "2")
    with started(cluster, *words) as process:
        assert process.stdout is not None
        assert "take" in process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=operating.SECONDS)
    assert said.startswith("interrupted: ")
    assert state in said
    assert process.returncode == status
    command("broker", "restore-write", "broker-b")


def test_a_listing_that_fails_changed_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = Inside(f"127.0.0.1:{silent.getsockname()[1]}").fails("topic", "list")
    assert "It may have happened" not in said


def test_a_topic_that_one_broker_has_is_created_on_the_other(command: Inside) -> None:
    command("topic", "create", "halved", "--queues", "3", "--broker", "broker-b")
    assert "update it instead" in command.fails("topic", "create", "halved", "--queues", "4")
    command("topic", "create", "halved", "--queues", "3")
    places = command.json("topic", "describe", "halved")["brokers"]
    assert [(each["broker"], each["readQueues"]) for each in places] == [(name, 3) for name in BROKERS]
    assert "update it instead" in command.fails("topic", "create", "halved", "--queues", "3")


def test_a_group_that_one_broker_has_is_created_on_the_other(command: Inside) -> None:
    command("group", "create", "half", "--retries", "3", "--broker", "broker-b")
    assert "already" in command.fails("group", "create", "half", "--retries", "4")
    command("group", "create", "half", "--retries", "3")
    assert "already" in command.fails("group", "create", "half", "--retries", "3")


def test_groups_of_the_brokers_themselves_stay(command: Inside) -> None:
    assert "is the brokers' own" in command.fails("group", "delete", "TOOLS_CONSUMER", "--yes")
    assert "TOOLS_CONSUMER" in [each["group"] for each in command.json("group", "list", "--all")]


def test_a_size_that_one_broker_has_is_given_to_the_other(command: Inside) -> None:
    command("topic", "create", "sized", "--queues", "2")
    command("topic", "grow", "sized", "--queues", "4", "--broker", "broker-a")
    (address,) = [each["address"] for each in command.json("broker", "list") if each["broker"] == "broker-a"]
    assert "shrink it" in command.fails("topic", "grow", "sized", "--queues", "1", "--broker", address)
    command("topic", "grow", "sized", "--queues", "4")
    command("topic", "shrink", "sized", "--queues", "1", "--broker", address, "--wait", "1ms")
    command("topic", "shrink", "sized", "--queues", "1", "--wait", "1ms")
    places = command.json("topic", "describe", "sized")["brokers"]
    assert [(each["readQueues"], each["writeQueues"]) for each in places] == [(1, 1), (1, 1)]


def test_what_a_name_server_kept_of_a_deleted_topic_is_deleted_by_a_repeat(command: Inside) -> None:
    command("nameserver", "kv", "set", "ORDER_TOPIC_CONFIG", "forgotten", "broker-a:4")
    command("topic", "delete", "forgotten", "--yes")
    assert "no broker has a topic 'forgotten'" in command.fails("topic", "delete", "forgotten", "--yes")


@pytest.mark.parametrize("words", ["broker list -c", "cluster describe", "topic list -c", "group list -c"])
def test_a_cluster_that_is_not_there_is_no_empty_list(command: Inside, words: str) -> None:
    assert "no cluster 'nosuch' is registered; there are: DefaultCluster" in command.fails(*words.split(), "nosuch")


def test_options_that_would_be_left_out_of_account_are_refused(command: Inside) -> None:
    command("topic", "create", "counted", "--queues", "1", "--broker", "broker-a")
    command("produce", "counted", "-m", "a", "-m", "b")
    command("consume", "counted", "-g", "counting", "--limit", "1", "--format", "raw")
    assert "--queue BROKER:NUMBER" in command.fails("group", "skip", "counting", "-t", "counted", "--count", "1")
    words = ("group", "reset", "counting", "-t", "counted", "--to", "last", "--queue", "broker-a:0")
    assert "all queues of the topic" in command.fails(*words)
    assert "--timeout 10s is too short" in command.fails("broker", "drain", "broker-a", "--timeout", "10s")
    assert perm(command, "counted") == "RW-"
    assert command.json("group", "describe", "counting")["lag"] == 1
