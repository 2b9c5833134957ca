"""The statements by which the formats' own runtimes in Spark maintain a table; `tests.spark.versions` runs them."""

from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.statements import statements
from firearrow.spark.upkeep.work import Upkeep

NOW_MS = 1_777_680_000_000  # 2026-05-02
DAY_MS = 86_400_000
WORK = Upkeep(
    compact=True, file_bytes=1 << 20, min_files=3, delete_where="id = 7", ttl_ms=DAY_MS, expire_ms=0, orphans_ms=DAY_MS
)


def made(table: LakeTable, work: Upkeep) -> list[str]:
    return list(statements(table, work, ["id", "_store_timestamp"], NOW_MS))


def test_iceberg() -> None:
    assert made(LakeTable("iceberg", "", "lake.shop.orders", native=True), WORK) == [
        "DELETE FROM lake.shop.orders WHERE id = 7",
        "DELETE FROM lake.shop.orders WHERE _store_timestamp < TIMESTAMP '2026-05-01 00:00:00.000000 UTC'",
        (
            "CALL lake.system.rewrite_data_files(table => 'shop.orders', "
            "options => map('target-file-size-bytes', '1048576', 'min-input-files', '3'))"
        ),
        (
            "CALL lake.system.expire_snapshots(table => 'shop.orders', "
            "older_than => TIMESTAMP '2026-05-02 00:00:00.000000 UTC', retain_last => 1)"
        ),
        (
            "CALL lake.system.remove_orphan_files(table => 'shop.orders', "
            "older_than => TIMESTAMP '2026-05-01 00:00:00.000000 UTC')"
        ),
    ]


def test_delta() -> None:
    table = LakeTable("delta", "s3://lake/orders", native=True)
    assert made(table, WORK)[2:] == [
        "SET spark.databricks.delta.optimize.maxFileSize = 1048576",
        "OPTIMIZE delta.`s3a://lake/orders`",
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
        "VACUUM delta.`s3a://lake/orders` LITE RETAIN 0 HOURS",
        "VACUUM delta.`s3a://lake/orders` RETAIN 24 HOURS",
    ]
    assert made(table, Upkeep(orphans_ms=DAY_MS))[1:] == ["VACUUM delta.`s3a://lake/orders` RETAIN 168 HOURS"]
