"""What ``firearrow produce`` makes of its input."""

import io
import sys
from pathlib import Path

import pytest

from firearrow.cli.inputs import InputFormat, Parts, messages
from firearrow.errors import IllegalMessage

PARTS = Parts("T", tag="t", keys=("k",), properties={"a": "1"})


def test_lines_of_files_and_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"one\r\n\ntwo")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"three\n")))
    found = list(messages(PARTS, [tmp_path / "f", Path("-")], [], InputFormat.LINES))
    assert [message.body for message in found] == [b"one", b"two", b"three"]
    assert all((message.tag, message.keys, message.properties["a"]) == ("t", ["k"], "1") for message in found)


def test_a_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\n")
    (message,) = messages(PARTS, [tmp_path / "f"], [], InputFormat.FILES)
    assert message.body == b"a\nb\n"


def test_json_says_more_than_the_options() -> None:
    line = '{"body": "x", "tag": "u", "keys": "p q", "properties": {"a": "2", "UNIQ_KEY": "old"}, "queueOffset": 7}'
    (message,) = messages(PARTS, [], [line], InputFormat.JSON)
    assert (message.tag, message.keys, message.properties["a"]) == ("u", ["p", "q"], "2")
    assert "UNIQ_KEY" not in message.properties
    (message,) = messages(PARTS, [], ['{"bodyBase64": "AP8="}'], InputFormat.JSON)
    assert (message.body, message.tag) == (b"\x00\xff", "t")


@pytest.mark.parametrize("line", ["x", "[]", "{}", '{"body": 1}', '{"body": "x", "bodyBase64": "AA=="}'])
def test_what_is_no_message_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "f").write_text('{"body": "fine"}\n' + line)
    with pytest.raises(IllegalMessage, match=r"line 2 of .*f is no message"):
        list(messages(PARTS, [tmp_path / "f"], [], InputFormat.JSON))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(IllegalMessage, match="missing cannot be read"):
        list(messages(PARTS, [tmp_path / "missing"], [], InputFormat.LINES))
