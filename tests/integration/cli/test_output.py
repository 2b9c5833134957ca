"""Commands whose output cannot be written: the reader left, the disk is full, or a descriptor is closed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.interop.cli.commands import MAIN, Commands

pytestmark = pytest.mark.real
SECONDS = 120
LONG = 100_000
"""A body of which a pipe holds no two."""


@contextmanager
def without_reader() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def run(command: Commands, *words: str, stdout: int, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        env=command.environment,
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_into_full(command: Commands, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    with open("/dev/full", "wb") as full:
        return run(command, *words, stdout=full.fileno(), stdin=stdin)


def assert_says_that_it_is_full(ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 1, ran.stderr
    (line,) = ran.stderr.splitlines()
    assert "No space left on device" in line


def test_a_member_whose_reader_left_acknowledges_what_it_printed_alone(
    firearrow_address: str, firearrow_topic: str
) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="".join(f"{number:0{LONG}}\n" for number in range(3)))
    words = ["consume", firearrow_topic, "-g", "left", "-f", "raw", "--idle", "30"]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as member:
        assert member.stdout is not None
        assert member.stderr is not None
        printed = b""
        while len(printed) < LONG + 1:
            printed += member.stdout.read(LONG + 1 - len(printed))
        member.stdout.close()
        said = member.stderr.read()
        assert member.wait(SECONDS) == 0
    assert said == b""
    rest = command.json_lines("consume", firearrow_topic, "-g", "left", "--limit", "2", "--idle", "30")
    assert {each["body"][-1] for each in rest} == {"0", "1", "2"} - {printed.strip().decode()[-1]}
    assert {each["topic"] for each in rest} == {firearrow_topic}  # none came by way of the retry topic


def test_a_member_that_cannot_print_acknowledges_nothing(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="x\n" * 5)
    words = ("consume", firearrow_topic, "-g", "full", "--limit", "5", "--idle", "30")
    assert_says_that_it_is_full(run_into_full(command, *words))
    found = command.json_lines(*words)
    assert [each["topic"] for each in found] == [firearrow_topic] * 5


def test_a_member_without_an_output_acknowledges_nothing(firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x")
    words = ("consume", firearrow_topic, "-g", "closed", "--limit", "1", "--idle", "30")
    ran = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", MAIN, *words],
        env=command.environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "standard output" in line
    assert [each["topic"] for each in command.json_lines(*words)] == [firearrow_topic]


@pytest.mark.parametrize("words", [["consume"], ["topic", "describe"], ["topic", "describe", "--json"]])
def test_a_full_disk_is_told_in_one_line(words: list[str], firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x")
    assert_says_that_it_is_full(run_into_full(command, *words, firearrow_topic))


@pytest.mark.parametrize("words", [["consume"], ["topic", "describe"], ["topic", "describe", "--json"]])
def test_a_reader_that_left_has_seen_enough(words: list[str], firearrow_address: str, firearrow_topic: str) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, "-m", "x")
    with without_reader() as writer:
        ran = run(command, *words, firearrow_topic, stdout=writer)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_slow_reader_of_output_that_does_not_block_is_waited_for(
    firearrow_address: str, firearrow_topic: str
) -> None:
    command = Commands(firearrow_address)
    command("produce", firearrow_topic, stdin="".join(f"{number:0{LONG}}\n" for number in range(3)))
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    words = [sys.executable, "-c", MAIN, "consume", firearrow_topic, "-f", "raw"]
    with (
        subprocess.Popen(words, env=command.environment, stdout=writer, stderr=subprocess.PIPE) as member,
        open(reader, "rb") as read,
    ):
        os.close(writer)
        assert len(read.read()) == 3 * (LONG + 1)
        assert member.stderr is not None
        assert member.stderr.read() == b""
        assert member.wait(SECONDS) == 0
