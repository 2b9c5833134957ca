"""An archive that follows a topic while the master of its group is killed: no row is lost, none comes twice."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firearrow.blocking import Message, Producer
from firearrow.errors import FireArrowError
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from judges.server_process import wait_for
from tests.integration.broker.replicas import Group
from tests.spark.serving import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
TOPIC = "orders"
BEFORE, AFTER = 200, 200
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with Group() as running:
        yield running


class Orders(threading.Thread):
    """Sends one message after the other, and remembers which were acknowledged."""

    def __init__(self, name_servers: str) -> None:
        super().__init__()
        self._name_servers = name_servers
        self.acked: list[bytes] = []
        self.is_halted = False

    def run(self) -> None:
        """Send until halted; a send that fails is not repeated."""
        with Producer(self._name_servers, group="P") as producer:
            number = 0
            while not self.is_halted:
                number += 1
                try:
                    if producer.send(Message.of(TOPIC, b"%d" % number)).is_ok:
                        self.acked.append(b"%d" % number)
                except FireArrowError:
                    continue
                time.sleep(0.01)


def test_an_archive_rides_through_the_death_of_the_master(spark: "SparkSession", group: Group, tmp_path: Path) -> None:
    name_servers = group.names.address
    orders = Orders(name_servers)
    orders.start()
    table = LakeTable("delta", str(tmp_path / "delta"))
    source = {"nameServer": name_servers, "subscribe": TOPIC, "maxOffsetsPerTrigger": "100"}
    what = archive.Archive(source, table, str(tmp_path / "checkpoint"))

    def rows() -> Counter[bytes]:
        found = access.read(spark, table).select("body").collect()
        return Counter(bytes(row.body) for row in found)

    try:
        wait_for(lambda: len(orders.acked) >= BEFORE, "messages before the death", PATIENCE_S)
        (query,) = archive.start(spark, what, {"processingTime": "0 seconds"})
        wait_for(lambda: query.exception() is not None or bool(query.lastProgress), "the first batch", PATIENCE_S)
        assert query.exception() is None
        master = group.until(lambda _: True, "a state").master
        group.brokers[master].kill()
        group.until(lambda state: state.master != master, "another master")
        acked = len(orders.acked)
        wait_for(lambda: len(orders.acked) >= acked + AFTER, "messages after the death", PATIENCE_S)
    finally:
        orders.is_halted = True
        orders.join()
    truth = Counter(message.body for message in held(name_servers, TOPIC).values())
    wait_for(lambda: query.exception() is not None or rows() == truth, "all rows", PATIENCE_S)
    assert query.exception() is None
    query.stop()
    assert [body for body in orders.acked if not truth[body]] == []
    assert rows() == truth
