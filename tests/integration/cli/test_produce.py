"""``firearrow produce``: the order of its messages, and its end at a terminal."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

import msgspec
import pytest

from tests.interop.cli.commands import MAIN, Commands

pytestmark = pytest.mark.real
SECONDS = 60
LINES = 3000


def by_key(messages: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Bodies of every sharding key, by their places in the queue; a key has one queue."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    queues: dict[str, set[int]] = defaultdict(set)
    for each in messages:
        found[each["shardingKey"]].append((each["queueOffset"], int(each["body"])))
        queues[each["shardingKey"]].add(each["queue"])
    assert {len(each) for each in queues.values()} == {1}
    return {key: [body for _, body in sorted(places)] for key, places in found.items()}


def test_one_sharding_key_keeps_its_order_from_a_pipe(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    lines = "".join(f"{number}\n" for number in range(LINES))
    command("produce", firearrow_topic, "--sharding-key", "k", stdin=lines)
    assert by_key(command.json_lines("consume", firearrow_topic)) == {"k": list(range(LINES))}


def test_every_sharding_key_keeps_its_order_beside_the_others(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    sent = [{"body": str(number), "shardingKey": f"k{number % 8}"} for number in range(LINES)]
    lines = "".join(msgspec.json.encode(each).decode() + "\n" for each in sent)
    command("produce", firearrow_topic, "-f", "json", stdin=lines)
    found = by_key(command.json_lines("consume", firearrow_topic))
    assert found == {f"k{key}": list(range(key, LINES, 8)) for key in range(8)}


def test_a_batch_lies_in_one_queue_end_to_end(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    sent = command.json_lines("produce", firearrow_topic, "--batch", "10", stdin="x\n" * 25)
    batches = [sent[:10], sent[10:20], sent[20:]]
    assert [len({each["queue"] for each in batch}) for batch in batches] == [1, 1, 1]
    for batch in batches:
        offsets = [each["queueOffset"] for each in batch]
        assert offsets == list(range(offsets[0], offsets[0] + len(batch)))
    lingered = command.json_lines("produce", firearrow_topic, "--linger", "200ms", stdin="y\n" * 25)
    assert len({each["queue"] for each in lingered}) == 1


@pytest.mark.parametrize(("codec", "is_small"), [("zlib", True), ("zstd", True), ("none", False)])
def test_bodies_are_compressed_as_told(
    codec: str, is_small: bool, firearrow_address: str, firearrow_topic: str
) -> None:
    command = Commands(firearrow_address)
    (broker,) = command.json("broker", "list")
    before = int(command.json("broker", "describe", broker["broker"])["state"]["commitLogMaxOffset"])
    command("produce", firearrow_topic, "-m", "a" * 50_000, "-z", codec)
    after = int(command.json("broker", "describe", broker["broker"])["state"]["commitLogMaxOffset"])
    assert (after - before < 10_000) is is_small
    assert command("consume", firearrow_topic, "-f", "%S") == "50000"


def test_delayed_messages_of_a_key_leave_in_order(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    lines = "".join(f"{number}\n" for number in range(50))
    options = ("--sharding-key", "k", "--delay-level", "1", "--json")
    sent = command.json_lines("produce", firearrow_topic, *options, stdin=lines)
    offsets = [each["queueOffset"] for each in sent]
    assert len(offsets) == 50
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_typing_at_a_terminal(
    number: signal.Signals, firearrow_address: str, firearrow_topic: str
) -> None:
    command = Commands(firearrow_address)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "produce", firearrow_topic, "--no-progress"],
        env=command.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    os.close(theirs)
    try:
        os.write(ours, b"typed\n")
        until = time.monotonic() + SECONDS
        while not command.json_lines("consume", firearrow_topic):
            assert time.monotonic() < until, "what was typed was not sent"
        process.send_signal(number)
        said = process.communicate(timeout=10)[1]
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 128 + number
    assert "1 message was acknowledged" in said
    assert "Traceback" not in said


def test_empty_lines_are_counted_and_a_closed_input_is_named(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    ran = command.process("produce", firearrow_topic, stdin="a\n\n\nb\n")
    assert ran.stdout.startswith("sent 2 messages")
    assert ran.stderr == "empty lines skipped: 2\n"
    words = f'{sys.executable} -c "{MAIN}" produce {firearrow_topic} <&-'
    closed = subprocess.run(
        ["sh", "-c", words], env=command.environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert closed.returncode == 1
    assert "standard input is closed" in closed.stderr.splitlines()[0]
