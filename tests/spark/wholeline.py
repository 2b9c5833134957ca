"""A driver that takes a topic through the whole line: archive, SQL, replay. Prints one line of JSON.

python -m tests.spark.wholeline MASTER NAME_SERVER DIRECTORY FORMAT [key=value ...]
"""

import json
import sys

from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive, replay
from firearrow.spark.session import open_session
from tests.spark.conftest import SETTINGS


def main() -> None:
    """Run the line."""
    master, name_server, directory, form = sys.argv[1:5]
    more = dict(pair.split("=", 1) for pair in sys.argv[5:])
    spark = open_session(master, {**SETTINGS, "spark.cores.max": "2", **more}, "whole line")
    table = LakeTable(form, f"{directory}/lake", "shop.orders" if form == "iceberg" else "").checked()  # type: ignore[arg-type]
    source = {"nameServer": name_server, "subscribe": "orders", "rowsPerPartition": "100", "maxPartitions": "4"}
    for query in archive.start(spark, archive.Archive(source, table, f"{directory}/checkpoint")):
        query.awaitTermination()
    rows = access.read(spark, table)
    rows.createOrReplaceTempView("orders")
    seen = spark.sql(
        "SELECT count(*) AS messages, count(DISTINCT row_id) AS ids, sum(length(body)) AS bytes, "
        "count(DISTINCT queue_id) AS queues FROM orders"
    ).first()
    assert seen is not None
    replay.replay(rows, replay.Replay("line", {"nameServer": name_server}, topic="copies", tasks=2))
    print(json.dumps(seen.asDict()), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
