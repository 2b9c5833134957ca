"""The tree of commands: what it says without an address, without an extra, and how little it loads."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from firearrow.cli.app import COMMANDS, app, load_command, options_first
from firearrow.cli.environment import server_environment, unread
from firearrow.record.recall_handle import RecallHandle, encode_handle

RUNNER = CliRunner()
WITHOUT_NAMES = {"FIREARROW_NAMESRV": "", "FIREARROW_NAMESRV_ADDR": "", "NAMESRV_ADDR": ""}
HANDLE = encode_handle(RecallHandle("T", "broker-a", "1", "key"))
ASKING = [
    ["topic", "list"],
    ["topic", "create", "T"],
    ["topic", "describe", "T"],
    ["topic", "update", "T", "-q", "2"],
    ["topic", "delete", "T", "-y"],
    ["group", "list"],
    ["group", "describe", "G"],
    ["group", "reset", "G", "-t", "T", "--to", "last"],
    ["topic", "route", "T"],
    ["topic", "grow", "T", "-q", "2"],
    ["topic", "shrink", "T", "-q", "2"],
    ["group", "create", "G"],
    ["group", "update", "G", "--retries", "3"],
    ["group", "delete", "G", "-y"],
    ["group", "skip", "G", "-t", "T"],
    ["cluster", "list"],
    ["cluster", "describe", "C"],
    ["broker", "list"],
    ["broker", "describe", "B"],
    ["broker", "config", "get", "B"],
    ["broker", "config", "set", "B", "x=y"],
    ["broker", "wipe-write", "B"],
    ["broker", "restore-write", "B"],
    ["broker", "drain", "B"],
    ["nameserver", "config", "get"],
    ["nameserver", "config", "set", "x=y"],
    ["nameserver", "kv", "list"],
    ["nameserver", "kv", "set", "N", "K", "V"],
    ["nameserver", "kv", "delete", "N", "K"],
    ["message", "get", "0A00000100002A9F00000000000001C8"],
    ["message", "query", "T", "K"],
    ["message", "by-time", "T"],
    ["message", "resend", "0A00000100002A9F00000000000001C8"],
    ["user", "create", "U", "--password", "p"],
    ["user", "update", "U", "--disable"],
    ["user", "delete", "U"],
    ["user", "list"],
    ["acl", "create", "U", "Pub", "Topic:T"],
    ["acl", "delete", "U"],
    ["acl", "list"],
    ["acl", "test", "U", "Pub", "Topic:T"],
    ["produce", "T", "-m", "x"],
    ["bench", "produce", "T"],
    ["bench", "consume", "T"],
    ["bench", "latency", "T"],
    ["recall", "T", HANDLE],
    ["consume", "T"],
]


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_command_without_an_address_says_how_to_give_one(words: list[str]) -> None:
    result = RUNNER.invoke(app, words, env=WITHOUT_NAMES)
    assert result.exit_code == 1
    assert "FIREARROW_NAMESRV" in result.stderr


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_cluster_that_is_not_there_is_named(words: list[str]) -> None:
    result = RUNNER.invoke(app, words, env={**WITHOUT_NAMES, "NAMESRV_ADDR": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_help_names_every_command() -> None:
    text = RUNNER.invoke(app, ["--help"]).stdout
    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topic", "update", "T"], "nothing to change"),
        (["topic", "create", "T", "--perm", "x"], "write rw, r, w or none"),
        (["topic", "create", "T", "-a", "x"], "write NAME=VALUE"),
        (["produce", "T", "-m", "x", "--delay", "soon"], "is not a duration"),
        (["produce", "T", "-m", "x", "--delay", "7s", "--delay-level", "3"], "--delay-level and --delay are given"),
        (["produce", "T", "-m", "x", "--at", "2001-01-01"], "--at 2001-01-01 is past; give a time to come"),
        (["produce", "T", "-m", "x", "--at", "tomorrow"], "is not a time"),
        (["produce", "T", "-m", "x", "-p", "y"], "write NAME=VALUE"),
        (["produce", "T", "-m", "x", "--batch", "2", "--linger", "5ms"], "give one of them"),
        (["produce", "T", "-m", "x", "--batch", "2", "--delay", "5s"], "no delayed messages in a batch"),
        (["consume", "T", "-g", "G", "--to", "5"], "do not work with --group"),
        (["consume", "T", "-g", "G", "--from", "-1h"], "group reset"),
        (["group", "reset", "G", "-t", "T", "--offset", "3"], "write BROKER:NUMBER"),
        (["group", "skip", "G", "-t", "T", "--queue", "3"], "write BROKER:NUMBER"),
        (["group", "update", "G"], "nothing to change"),
        (["broker", "config", "set", "B", "x"], "write NAME=VALUE"),
        (["user", "update", "U"], "nothing to change"),
        (["acl", "test", "U", "Push", "Topic:T"], "write one of Pub, Sub"),
        (["acl", "test", "U", "Pub", "Topic:*"], "is not one thing"),
        (["broker", "drain", "B", "--wait", "soon"], "is not a duration"),
        (["nameserver", "config", "set", "x"], "write NAME=VALUE"),
        (["topic", "shrink", "T", "-q", "2", "--wait", "soon"], "is not a duration"),
        (["message", "get", "xyz"], "32 or 56 hexadecimal digits"),
        (["message", "query", "T", "K", "--from", "soon"], "is not a time"),
        (["message", "resend", "0A00000100002A9F00000000000001C8", "--client", "c"], "give the group too"),
    ],
)
def test_a_mistake_says_what_to_write(words: list[str], said: str) -> None:
    result = RUNNER.invoke(app, [*words, "-n", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_question_loads_no_server() -> None:
    code = "import sys, firearrow.cli.topic, firearrow.cli.produce, firearrow.cli.operate.brokers; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [
        name for name in loaded if name.startswith(("firearrow.broker", "firearrow.nameserver", "firearrow.store"))
    ]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from firearrow import cli; sys.argv[1:] = ['--help']; cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "pip install 'firearrow[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_plugin_needs_nothing_but_pytest() -> None:
    code = (
        "import sys\n"
        "for name in 'typer rich uvloop lz4 zstandard hypothesis cryptography'.split(): sys.modules[name] = None\n"
        "import firearrow.testing.pytest_plugin\n"
        "print(*(name for name in sys.modules if name.startswith('firearrow')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"firearrow", "firearrow.testing", "firearrow.testing.pytest_plugin"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    told = " ".join((load_command(name).help or "").split())
    assert told.startswith(COMMANDS[name].rstrip("."))


@pytest.mark.parametrize(
    ("words", "ordered"),
    [
        ("topic list --tls", "--tls topic list"),
        ("topic list --trust ca.pem -n a:1", "--trust ca.pem topic list -n a:1"),
        ("topic --access-key=a list --secret-key b", "--access-key=a --secret-key b topic list"),
        ("produce t -- --tls", "produce t -- --tls"),
        ("topic list --trust", "--trust topic list"),
    ],
)
def test_tls_and_keys_may_stand_behind_the_command(words: str, ordered: str) -> None:
    assert options_first(words.split()) == ordered.split()


def test_the_name_servers_may_stand_before_the_command() -> None:
    result = RUNNER.invoke(app, ["-n", "127.0.0.1:1", "topic", "list"], env={"FIREARROW_NAMESRV": "127.0.0.1:2"})
    assert "127.0.0.1:1" in result.stderr
    result = RUNNER.invoke(app, ["-n", "127.0.0.1:1", "topic", "list", "-n", "127.0.0.1:3"], env=WITHOUT_NAMES)
    assert "127.0.0.1:3" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(["prodce"], "Did you mean 'produce'"), (["topic", "lst"], "list"), (["topic", "list", "--jsn"], "--json")],
)
def test_a_mistyped_word_gets_a_suggestion(words: list[str], said: str) -> None:
    result = RUNNER.invoke(app, words)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("name", ["FIREARROW_NAMESRV", "FIREARROW_NAMESRV_ADDR", "NAMESRV_ADDR"])
def test_servers_and_commands_read_the_same_names(name: str) -> None:
    assert server_environment({name: "a:1", "X": "y"}) == {"FIREARROW_NAMESRV_ADDR": "a:1", "X": "y"}
    result = RUNNER.invoke(app, ["topic", "list"], env={**WITHOUT_NAMES, name: "127.0.0.1:1"})
    assert "127.0.0.1:1" in result.stderr


def test_a_variable_that_nothing_reads_is_named() -> None:
    assert unread(["FIREARROW_NAMESRV", "FIREARROW_LISTEN_PORT", "FIREARROW_TLS", "PATH"]) == []
    (said,) = unread(["FIREARROW_NAMESVR"])
    assert "did you mean FIREARROW_NAMESRV?" in said
    result = RUNNER.invoke(app, ["topic", "list"], env={**WITHOUT_NAMES, "FIREARROW_LISTEN_PROT": "1"})
    assert "did you mean FIREARROW_LISTEN_PORT?" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_completion_is_offered_at_the_top_alone(name: str) -> None:
    assert "--install-completion" in RUNNER.invoke(app, ["--help"]).stdout
    assert "--install-completion" not in RUNNER.invoke(app, [name, "--help"]).stdout


def test_a_text_that_is_not_a_recall_handle_is_named_before_anything_is_recalled() -> None:
    environment = {**WITHOUT_NAMES, "NAMESRV_ADDR": "127.0.0.1:1"}
    result = RUNNER.invoke(app, ["recall", "T", HANDLE, "nonsense"], env=environment)
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "'nonsense' is not a recall handle; give one that produce --json printed as recallHandle\n"
    )


def test_a_rule_with_a_star_in_the_middle_of_a_name_is_not_sent() -> None:
    result = RUNNER.invoke(app, ["acl", "create", "alice", "Sub", "Topic:*orders*"], env=WITHOUT_NAMES)
    assert result.exit_code == 1
    assert (
        "write Topic:NAME for one name, Topic:PREFIX* for all names that begin so, or Topic:* for all" in result.output
    )
