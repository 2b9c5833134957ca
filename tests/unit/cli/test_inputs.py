"""The messages that ``firearrow produce`` makes of its input."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from firearrow.cli.messages.inputs import Delay, InputFormat, MessageDefaults, SkipCount, messages
from firearrow.errors import IllegalMessage
from firearrow.model import Message, keys

PARTS = MessageDefaults("T", tag="t", keys=("k",), properties={"a": "1"})


def read(files: list[Path], texts: list[str], form: InputFormat) -> list[Message]:
    async def collect() -> list[Message]:
        return [message async for message in messages(PARTS, files, texts, form, SkipCount())]

    return asyncio.run(collect())


def test_lines_of_files_and_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"one\r\n\ntwo")
    reader, writer = os.pipe()
    os.write(writer, b"three\nfour")
    os.close(writer)
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        found = read([tmp_path / "f", Path("-")], [], InputFormat.LINES)
    assert [message.body for message in found] == [b"one", b"two", b"three", b"four"]
    assert all((message.tag, message.keys, message.properties["a"]) == ("t", ["k"], "1") for message in found)


def test_a_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\n")
    (message,) = read([tmp_path / "f"], [], InputFormat.FILES)
    assert message.body == b"a\nb\n"


def test_json_says_more_than_the_options() -> None:
    line = '{"body": "x", "tag": "u", "keys": "p q", "properties": {"a": "2", "UNIQ_KEY": "old"}, "queueOffset": 7}'
    (message,) = read([], [line], InputFormat.JSON)
    assert (message.tag, message.keys, message.properties["a"]) == ("u", ["p", "q"], "2")
    assert "UNIQ_KEY" not in message.properties
    (message,) = read([], ['{"bodyBase64": "AP8="}'], InputFormat.JSON)
    assert (message.body, message.tag) == (b"\x00\xff", "t")


@pytest.mark.parametrize(
    ("members", "properties"),
    [
        ("", {keys.TIMER_DELAY_MS: "5000"}),
        (', "delay": "90s"', {keys.TIMER_DELAY_MS: "90000"}),
        (', "deliverAt": 1800000000123', {keys.TIMER_DELIVER_MS: "1800000000123"}),
        (', "deliverAt": "2027-01-15T08:00:00Z"', {keys.TIMER_DELIVER_MS: "1800000000000"}),
        (', "delayLevel": 3', {keys.DELAY: "3"}),
        (', "dueTimestamp": 1700000000000', {keys.TIMER_DELAY_MS: "5000"}),
    ],
)
def test_a_delay_of_a_line_replaces_that_of_the_options(members: str, properties: dict[str, str]) -> None:
    async def collect() -> list[Message]:
        parts = MessageDefaults("T", delay=Delay(wait_ms=5000))
        line = f'{{"body": "x"{members}}}'
        return [message async for message in messages(parts, [], [line], InputFormat.JSON, SkipCount())]

    (message,) = asyncio.run(collect())
    assert message.properties == properties


@pytest.mark.parametrize(
    "members", ['"delay": "soon"', '"deliverAt": "tomorrow"', '"deliverAt": 7', '"delay": "1s", "delayLevel": 3']
)
def test_a_delay_that_is_none_is_named(members: str) -> None:
    with pytest.raises(IllegalMessage, match=r"--message is not a message: .*(write|give one of them)"):
        read([], [f'{{"body": "x", {members}}}'], InputFormat.JSON)


@pytest.mark.parametrize(
    "line", ["x", "[]", "{}", '{"body": 1}', '{"body": "x", "bodyBase64": "AA=="}', '{"a":' + "[" * 5_000]
)
def test_what_is_no_message_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "f").write_text('{"body": "fine"}\n' + line)
    with pytest.raises(IllegalMessage, match=r"line 2 of .*f is not a message"):
        read([tmp_path / "f"], [], InputFormat.JSON)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(IllegalMessage, match="missing cannot be read"):
        read([tmp_path / "missing"], [], InputFormat.LINES)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_standard_input_from_a_file_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (tmp_path / "f").write_bytes(b"one\ntwo\r\n\nthree")
    monkeypatch.setattr("firearrow.cli.messages.standard_input.CHUNK", size)
    with (tmp_path / "f").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        found = read([], [], InputFormat.LINES)
    assert [message.body for message in found] == [b"one", b"two", b"three"]


def test_properties_that_tell_what_became_of_a_message_are_not_taken_over() -> None:
    dead = '{"body": "b", "properties": {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "7F", "REAL_TOPIC": "D", "a": "2"}}'
    (message,) = read([], [dead], InputFormat.JSON)
    assert {name: value for name, value in message.properties.items() if name not in ("TAGS", "KEYS")} == {"a": "2"}
