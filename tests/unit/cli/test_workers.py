"""The process of a worker, and its restarts."""

from pathlib import Path

import pytest

from firearrow.cli.servers.supervision import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S, BackOff
from firearrow.cli.servers.workers import Workers
from firearrow.errors import SettingsError


def test_every_worker_has_a_name_a_store_and_ports_of_its_own() -> None:
    first, second = Workers(2, "host", "/data", 10911, 5557, ("-n", "names:9876")).plan()
    assert first.arguments == (
        "broker", "--store", "/data/0", "--port", "10911", "--metrics-port", "5557", "-n", "names:9876",
    )  # fmt: skip
    assert second.arguments[1:7] == ("--store", "/data/1", "--port", "10921", "--metrics-port", "5558")
    assert [each.environment["FIREARROW_BROKER_NAME"] for each in (first, second)] == ["host-0", "host-1"]


def test_pauses_grow_to_a_limit_and_begin_anew_after_a_steady_run() -> None:
    back_off = BackOff()
    pauses = [back_off.pause(1.0) for _ in range(10)]
    assert pauses[0] == FIRST_PAUSE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    assert back_off.pause(STEADY_S) == FIRST_PAUSE_S


@pytest.mark.parametrize(
    ("port", "metrics_port", "log", "says"),
    [
        (65_530, None, "log", "ports up to 65541"),
        (10_911, 10_920, "log", "port 10921"),
        (10_911, 5557, "missing/log", "--log-file"),
    ],
)
def test_what_no_worker_could_start_with_is_refused_at_once(
    tmp_path: Path, port: int, metrics_port: int | None, log: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        Workers(2, "host", "/data", port, metrics_port, (), str(tmp_path / log)).plan()
