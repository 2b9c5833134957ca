"""``firearrow consume``: its messages, its output and its offsets."""

import http.server
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.interop.cli.commands import MAIN, Commands

pytestmark = pytest.mark.real


@pytest.mark.parametrize("group", [[], ["-g", "x"]])
def test_a_topic_that_is_not_there_is_named(group: list[str], firearrow_address: str) -> None:
    said = Commands(firearrow_address).fails("consume", "nosuch", *group)
    assert "'nosuch'" in said


def test_looking_leaves_no_trace(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x")
    before = command.json("topic", "list", "--all"), command.json("group", "list", "--all")
    assert len(command.json_lines("consume", firearrow_topic)) == 1
    after = command.json("topic", "list", "--all"), command.json("group", "list", "--all")
    assert after == before
    assert not [each for each in after[0] if "TOOLS_CONSUMER" in each["topic"]]


def test_a_table_has_a_header_and_a_format_has_fields(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x", "--key", "k", "--tag", "t")
    header, line = command("consume", firearrow_topic).splitlines()
    assert header.split() == ["stored", "broker:queue@offset", "tag,", "keys", "body"]
    assert line.index("x") == header.index("body")
    assert command("consume", firearrow_topic, "-f", r"%t %k %g %s\n") == f"{firearrow_topic} k t x\n"


def test_a_move_shows_from_where_to_where_before_it_is_made(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="x\n" * 20)
    command("consume", firearrow_topic, "-g", "mover", "--limit", "20", "--idle", "20")
    places = ("group", "reset", "mover", "-t", firearrow_topic, "--to", "first")
    planned = command.json(*places, "--dry-run")
    assert sum(each["before"] for each in planned) == 20
    assert {each["after"] for each in planned} == {0}
    assert command.json(*places) == planned


def test_name_servers_are_looked_up_over_http(firearrow_address: str, firearrow_topic: str) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = firearrow_address.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = Commands("")
        at = ("-n", f"http://127.0.0.1:{server.server_port}/nsaddr")
        assert firearrow_topic in [each["topic"] for each in command.json("topic", "list", *at)]
        command("produce", firearrow_topic, "-m", "x", *at)
        assert len(command.json_lines("consume", firearrow_topic, *at)) == 1
        server.shutdown()


@pytest.mark.parametrize("server", ["broker", "nameserver", "dev"])
def test_a_port_that_is_taken_is_all_that_is_said(server: str, tmp_path: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = {
            "broker": ["broker", "--port", port, "--bind", "127.0.0.1", "--store", f"{tmp_path}/store"],
            "nameserver": ["nameserver", "--port", port, "--bind", "127.0.0.1", "--directory", f"{tmp_path}/names"],
            "dev": ["dev", "--name-server-port", port, "--port", "0"],
        }[server]
        ran = subprocess.run(
            [sys.executable, "-c", MAIN, *words, "--log-level", "ERROR"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    assert port in ran.stderr
    assert "stopped" not in ran.stderr
    assert "Traceback" not in ran.stderr


def test_following_ends_where_it_is_told_to(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "--sharding-key", "k", stdin="".join(f"{number}\n" for number in range(8)))
    (place,) = {f"{each['broker']}:{each['queue']}" for each in command.json_lines("consume", firearrow_topic)}
    look = ("consume", firearrow_topic, "--queue", place, "--follow", "--from", "first", "-f", r"%s\n", "--to")
    assert command(*look, "3").split() == ["0", "1", "2"]
    assert len(command(*look, "now").split()) == 8
    stored_at = time.monotonic()
    while time.monotonic() - stored_at < 2.5:
        command("topic", "list")
    assert len(command(*look, "-1500ms").split()) == 8


def test_a_group_without_a_name_is_no_group(firearrow_address: str, firearrow_topic: str) -> None:
    assert "--group is empty" in Commands(firearrow_address).fails("consume", firearrow_topic, "-g", "")


def test_a_new_group_that_follows_begins_at_the_first_message(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "old")
    assert command("consume", firearrow_topic, "-g", "follower", "--follow", "--limit", "1", "-f", "raw") == "old\n"


def test_a_tag_that_holds_an_operator_is_doubted(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    assert "write || between tags" in command.process("consume", firearrow_topic, "--tag", "a && b").stderr


def test_a_group_is_not_moved_behind_the_end_of_a_queue(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    queue = command.json("topic", "describe", firearrow_topic)["queues"][0]
    place = f"{queue['broker']}:{queue['queue']}"
    move = ("group", "reset", "ahead", "-t", firearrow_topic, "--queue", place, "--offset", "99999")
    for words in (move, (*move, "--dry-run")):
        assert "ends at offset 0, before 99999" in command.fails(*words)


@pytest.mark.parametrize("group", [[], ["-g", "by-sql", "--idle", "2"]])
def test_messages_are_filtered_by_their_properties(
    group: list[str], firearrow_address: str, firearrow_topic: str
) -> None:
    command = Commands(firearrow_address)
    for amount in ("5", "500"):
        command("produce", firearrow_topic, "-m", f"order of {amount}", "-p", f"amount={amount}")
    told = command("consume", firearrow_topic, "--sql", "amount > 100", "-f", "raw", *group)
    assert told == "order of 500\n"


def test_a_condition_that_would_be_cut_off_is_refused(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    assert "LIKE" in command.fails("consume", firearrow_topic, "--sql", "amount LIKE '5%'")
    assert "do not go together" in command.fails("consume", firearrow_topic, "--sql", "amount > 1", "--tag", "A")
    for option in ("--sql", "--cel"):  # as of a variable that is not set: not every message
        assert "expression" in command.fails("consume", firearrow_topic, option, "")


def test_bodies_are_filtered_by_the_broker(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="".join(f'{{"amount": {amount}}}\n' for amount in range(20)))
    condition = "body.amount > 16"
    for group in ([], ["-g", "by-body", "--limit", "3", "--idle", "20"]):
        found = command("consume", firearrow_topic, "--cel", condition, "-f", r"%s\n", *group).splitlines()
        assert sorted(found) == [f'{{"amount": {amount}}}' for amount in (17, 18, 19)]
    assert "'amount' at character 1 is not a variable" in command.fails(
        "consume", firearrow_topic, "--cel", "amount > 1"
    )
    assert "do not go together" in command.fails("consume", firearrow_topic, "--cel", condition, "--tag", "A")


def test_operators_see_what_the_filter_of_a_group_did(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    for amount in (5, 50, 500):
        command("produce", firearrow_topic, "-m", "x", "-p", f"amount={amount}")
    words = ("--sql", "amount > 100", "-g", "seen", "--limit", "1", "--idle", "20")
    assert "x" in command("consume", firearrow_topic, *words)
    (use,) = command.json("group", "describe", "seen")["filters"]
    assert (use["topic"], use["filtered"], use["withoutVerdict"]) == (firearrow_topic, 2, 0)
    assert use["judged"] >= 3
    assert use["microseconds"] > 0
    told = command("group", "describe", "seen")
    assert "Filters, last 24 hours" in told
