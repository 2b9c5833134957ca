"""A topic as a streaming table, and what was sold by product as a materialized view over it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

BODY = "product STRING, amount INT"

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Every message of the topic, once; a run takes what came since the last one."""
    return (
        spark.readStream.format("rocketmq")
        .option("nameServer", spark.conf.get("spark.shop.nameServer"))
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.materialized_view
def sold() -> DataFrame:
    """Products with the number of pieces sold; made anew by every run."""
    body = F.from_json(F.col("body").cast("string"), BODY)
    rows = spark.read.table("orders").select(body.alias("order")).select("order.*")
    return rows.groupBy("product").agg(F.sum("amount").alias("pieces"))
