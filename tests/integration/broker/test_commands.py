"""``firearrow broker`` and ``firearrow dev`` as their users start them: real sockets, files and signals."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firearrow.testing.complaints import complaints_in
from firearrow.testing.ports import free_broker_port
from judges.server_process import wait_for
from judges.wire import Answer, ask

pytestmark = pytest.mark.real

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
SEND, ROUTE, PULL = 310, 105, 11
PATIENCE_S = 30


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command until the end of the block."""
    words = [sys.executable, "-c", MAIN, *arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        _, errors = process.communicate()
        assert not complaints_in(errors), errors


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ask it to stop; return how it ended and what it said."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert not complaints_in(errors), errors
    return process.returncode, errors


def send(address: str, topic: str = "T") -> Answer:
    numbers = dict.fromkeys("efgh", "0")
    return ask(address, SEND, {"a": "P", "b": topic, "c": "TBW102", "d": "4", **numbers}, b"hello")


def stored(address: str, topic: str = "T", offset: int = 0) -> bytes:
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return ask(address, PULL, fields).body


def start_dev(process: subprocess.Popen[str]) -> tuple[str, str, Path]:
    words = [line.split() for line in lines(process, 3)]
    assert [line[0] for line in words] == ["name", "broker", "data"]
    return words[0][-1], words[1][-1], Path(words[2][-1])


def test_dev_serves_on_loopback_and_throws_its_data_away() -> None:
    with running("dev", "--name-server-port", "0", "--port", "0") as process:
        names, broker, directory = start_dev(process)
        assert names.startswith("127.0.0.1:")
        assert broker.startswith("127.0.0.1:")
        assert send(broker).code == 0
        assert b"hello" in stored(broker)
        host, _, port = broker.rpartition(":")
        assert send(f"{host}:{int(port) - 2}").code == 0, "the port two below answers too"
        assert broker.encode() in ask(names, ROUTE, {"topic": "T"}).body
        assert directory.is_dir()
        assert end(process)[0] == 0
        assert not directory.exists()


def test_dev_keeps_its_data_where_it_is_told_to(tmp_path: Path) -> None:
    for start in range(2):
        with running("dev", "--name-server-port", "0", "--port", "0", "--directory", str(tmp_path)) as process:
            _, broker, _ = start_dev(process)
            assert send(broker).fields["queueOffset"] == str(start)
            assert all(b"hello" in stored(broker, offset=offset) for offset in range(start + 1))
            assert end(process)[0] == 0


def test_dev_is_small_and_quick(tmp_path: Path) -> None:
    with running("dev", "--name-server-port", "0", "--port", "0", "--directory", str(tmp_path)) as process:
        start_dev(process)
        resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        assert resident is not None
        assert int(resident[1]) <= 100 * 1024


def test_a_broker_opens_its_port_and_the_one_two_below(tmp_path: Path) -> None:
    port = free_broker_port()
    where = ("--port", str(port), "--bind", "127.0.0.1", "--advertise", "127.0.0.1", "--store", str(tmp_path))
    with running("broker", *where) as process:
        (said,) = lines(process, 1)
        assert f"127.0.0.1:{port}" in said
        assert "clients cannot find it" in said
        assert send(f"127.0.0.1:{port}").code == 0
        assert send(f"127.0.0.1:{port - 2}").code == 0
        code, errors = end(process)
        assert code == 0
        assert errors.endswith("broker stopped\n")
    assert not (tmp_path / "abort").exists()


def test_a_broker_takes_apache_s_file_and_says_what_it_thinks_of_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    port = free_broker_port()
    file.write_text(
        f"brokerName=broker-z\nlistenPort={port}\nbrokerIP1=127.0.0.1\nstorePathRootDir={tmp_path / 'store'}\n"
        "sendMessageThreadPoolNums=16\nautoCreateTopicEnable=false\n"
    )
    with running("broker", "-c", str(file)) as process:
        (said,) = lines(process, 1)
        assert said.startswith("broker broker-z serves on")
        assert send(f"127.0.0.1:{port}").code == 17
        assert "sendMessageThreadPoolNums in broker.conf has no effect" in end(process)[1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("brokerRole=SLAVE", "needs a brokerId of its own"),
        ("aclEnable=true", "there is no config/plain_acl.yml"),
        ("listenPort=many", "not usable"),
        ("messageDelayLevel=soon", "delay level 1"),
        ("namesrvAddr=here", "is not a list of name servers"),
    ],
)
def test_a_broker_that_cannot_do_what_it_is_told_does_not_start(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"storePathRootDir={tmp_path / 'store'}\n{line}\n")
    with running("broker", "-c", str(file)) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert reason in errors
        assert "Traceback" not in errors


def test_a_taken_port_or_directory_is_told_in_plain_words(tmp_path: Path) -> None:
    port, other = free_broker_port(), free_broker_port()
    common = ("--bind", "127.0.0.1", "--advertise", "127.0.0.1")
    with running("broker", "--port", str(port), *common, "--store", str(tmp_path / "a")) as first:
        lines(first, 1)
        for arguments in (
            ("--port", str(port), "--store", str(tmp_path / "b")),
            ("--port", str(other), "--store", str(tmp_path / "a")),
        ):
            with running("broker", *common, *arguments) as second:
                _, errors = second.communicate(timeout=PATIENCE_S)
                assert second.returncode == 1
                assert "firearrow broker: " in errors
                assert "Traceback" not in errors


def test_draining_ends_at_the_second_signal(tmp_path: Path) -> None:
    where = ("--port", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path / "names"))
    with running("nameserver", *where) as server:
        names = re.findall(r"127\.0\.0\.1:\d+", lines(server, 1)[0])[0]
        broker = f"127.0.0.1:{free_broker_port()}"
        to = ("-n", names, "--store", str(tmp_path / "store"), "--advertise", "127.0.0.1")
        with running("broker", "--drain", "--port", broker.partition(":")[2], *to) as process:
            lines(process, 1)
            send(broker)
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: b'"perm":4' in ask(names, ROUTE, {"topic": "T"}).body, "a route without writes")
            assert send(broker).code == 0
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0
