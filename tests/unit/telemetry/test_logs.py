"""Log lines of servers: text or JSON, files that rotate, a level that changes while the server runs."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.telemetry import logs
from firearrow.telemetry.logs import JsonFormatter, LineForm, ValuesFormatter, change_level, log_to_file

log = logging.getLogger("firearrow.test")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.complaints("it failed")
def test_an_event_is_one_json_object_with_its_values_and_its_trace(tmp_path: Path) -> None:
    log_to_file(str(tmp_path / "log"), "INFO", LineForm.JSON)
    log.warning("broker %s is removed", "a", extra={"broker": "a", "path": Path("x")})
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    first, second = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "WARNING",
        "logger": "firearrow.test",
        "event": "broker a is removed",
        "broker": "a",
        "path": "x",
    }
    assert "ValueError: two\nlines" in second["trace"]


def test_a_large_file_is_renamed_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 500)
    monkeypatch.setattr(logs, "FILES_KEPT", 2)
    log_to_file(str(tmp_path / "log"))
    for number in range(40):
        log.info("line %d", number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith("line 39")


def test_the_level_changes_while_the_program_runs(tmp_path: Path) -> None:
    log_to_file(str(tmp_path / "log"), "WARNING")
    for level in ("DEBUG", "WARNING"):
        log.debug("before %s", level)
        change_level(level)
        log.debug("after %s", level)
    text = (tmp_path / "log").read_text()
    assert "the log level is DEBUG now" in text
    assert "after DEBUG" in text
    assert "before WARNING" in text
    assert "before DEBUG" not in text
    assert "after WARNING" not in text


def test_values_do_not_take_the_place_of_the_level_and_a_message_is_a_line(tmp_path: Path) -> None:
    for form in LineForm:
        log_to_file(str(tmp_path / form.value), "INFO", form)
        logging.getLogger("part").warning("it waits:\nfor %s", "a\r\nb", extra={"level": 3, "time": 7})
    (line,) = (tmp_path / "json").read_text().splitlines()
    said = json.loads(line)
    assert (said["level"], said["level_of_event"], said["time_of_event"]) == ("WARNING", 3, 7)
    assert said["event"] == "it waits:\nfor a\r\nb"
    (line,) = (tmp_path / "text").read_bytes().decode().splitlines()
    assert r"part: it waits:\nfor a\r\nb level=3 time=7" in line


@pytest.mark.parametrize(
    "hostile", ["\x1b[31mred", "a\nforged line", "\x9b2J", "\x07", "\u202egnihton", "x\u2028y", "\x7f"]
)
def test_what_a_terminal_obeys_is_written_as_an_escape(hostile: str) -> None:
    try:
        raise ValueError(hostile.replace("\n", ""))
    except ValueError:
        record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s", (hostile,), sys.exc_info())
    for formatter in (ValuesFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert all(char.isprintable() or char == "\n" for char in line)
        assert "\nforged" not in line
