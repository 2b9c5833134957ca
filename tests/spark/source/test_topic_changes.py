"""A slice of the rounds of `tests.spark.topic_changes`: topics that change at random under a stream and under jobs."""

from typing import Any

import pytest

from firearrow.spark.source.marks import DeletedTopic
from firearrow.spark.source.reader import DataLost
from firearrow.spark.source.stream import TopicsStreamReader
from judges import ApacheBroker
from tests.spark.topic_changes import OURS, play, serving

pytestmark = [pytest.mark.apache, pytest.mark.real]


@pytest.mark.parametrize("number", [1, 4, 6])
def test_every_row_is_delivered_once_or_a_loss_is_told(broker: ApacheBroker, number: int) -> None:
    assert play([broker], number).faults == []


@pytest.mark.parametrize("is_named", [True, False])
def test_a_stream_that_always_tells_a_loss_is_a_fault(is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: no row is missing, but a query with failOnDataLoss could never go on."""
    right = TopicsStreamReader.latestOffset

    def alarmed(self: TopicsStreamReader, start: Any = None, limit: object | None = None) -> dict[str, Any]:
        if self._options.fail_on_data_loss and start is not None:
            raise DataLost([DeletedTopic(next(iter(start)) if is_named else "another")])
        return right(self, start, limit)

    monkeypatch.setattr(TopicsStreamReader, "latestOffset", alarmed)
    with serving(OURS) as brokers:
        assert any("a loss is told" in fault for fault in play(brokers, 1).faults)
