"""Every option of the sink."""

import pytest

from firearrow.errors import SettingsError
from firearrow.spark.sink.rows import RowShape
from firearrow.spark.sink.sender import producer_for
from firearrow.spark.sink.sink_options import SINK, sink_options

REACH = {"nameServer": "h:9876"}


def test_defaults() -> None:
    read = sink_options(REACH)
    assert read.shape == RowShape()
    assert (read.send_timeout_ms, read.retry_timeout_ms, read.batch_bytes, read.rate_limit) == (
        10_000,
        120_000,
        1 << 18,
        0,
    )


def test_every_option_is_read_whatever_its_case() -> None:
    given = {
        "topic": "orders",
        "identityColumns": "a, b",
        "repeats": "keep",
        "producerGroup": "g",
        "sendTimeoutMs": "5",
        "retryTimeoutMs": "6",
        "batchBytes": "7",
        "rateLimit": "8.5",
        "jobId": "j",
    }
    assert {option.name for option in SINK} == set(given)
    read = sink_options({"NAMESERVER": "h:9876", **{name.upper(): value for name, value in given.items()}})
    assert read.shape == RowShape("orders", ("a", "b"), keeps_repeats=True)
    assert (read.group, read.send_timeout_ms, read.retry_timeout_ms, read.batch_bytes) == ("g", 5, 6, 7)
    assert (read.rate_limit, read.job_id) == (8.5, "j")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "nameServer is missing"),
        ({**REACH, "rateLimit": "fast"}, "messages a second"),
        ({**REACH, "repeats": "sometimes"}, "takes 'drop' or 'keep'"),
        ({**REACH, "rateLimit": "-1"}, "0 .no limit. or more"),
        ({**REACH, "batchBytes": "0"}, "1 or more"),
        ({**REACH, "topik": "x"}, "did you mean topic"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        sink_options(given)


def test_options_of_the_engine_are_let_through() -> None:
    assert sink_options({**REACH, "checkpointLocation": "/c", "path": "x"}).job_id == ""


def test_rows_are_not_compressed() -> None:
    """A row that travels alone has the bytes that it has in a batch, so brokers recognise it."""
    settings = producer_for(sink_options(REACH)).settings
    assert settings.compress_over_bytes >= settings.max_message_bytes
