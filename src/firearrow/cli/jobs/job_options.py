"""Options that jobs of ``firearrow pipeline`` share: Spark, tables, object stores, clusters; and their meaning."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from firearrow.cli.cluster import name_servers, reach_of
from firearrow.cli.environment import STORAGE, AccessOptions
from firearrow.cli.option_groups import OptionGroup
from firearrow.errors import SettingsError
from firearrow.model.signature import SignatureMethod
from firearrow.runtime.tls_settings import ClientTls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firearrow.spark.lake.table import LakeTable

Format = Annotated[str, typer.Option("--format", help="parquet, iceberg or delta.")]
Location = Annotated[str, typer.Option(help="Directory or URI: of the table, or of the warehouse for iceberg.")]
Table = Annotated[str, typer.Option(help="Iceberg: namespace.table. Native tables: the name in Spark's catalog.")]
Catalog = Annotated[list[str] | None, typer.Option(help="Iceberg: a property of the catalog, key=value; repeatable.")]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        envvar=STORAGE,
        help="Object store of tables and checkpoint, key=value, such as s3.endpoint=http://host; repeatable.",
        show_default=False,
    ),
]
Native = Annotated[bool, typer.Option(help="Use the format's own runtime inside Spark; its jar must be installed.")]
Evolution = Annotated[
    str,
    typer.Option(
        "--evolve", help="If rows do not fit the table: fail, add columns, or widen types too. See the guide on tables."
    ),
]
Partitions = Annotated[
    str, typer.Option("--partition-by", help="Partitions of a new table, such as 'day(store_timestamp), topic'.")
]


@dataclass(frozen=True)
class SparkOptions(OptionGroup):
    """Spark, and how much a command says."""

    master: Annotated[
        str,
        typer.Option(
            help="Spark's master, or sc://host:port of a Spark Connect server; else spark-submit's, else local[*].",
            show_default=False,
        ),
    ] = ""
    conf: Annotated[list[str] | None, typer.Option("--conf", help="A setting of Spark, key=value; repeatable.")] = None
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log, and the whole trace of a failure.")] = (
        False
    )


@dataclass(frozen=True)
class TableOptions(OptionGroup):
    """A lake table, but for its location."""

    form: Format = "iceberg"
    table: Table = ""
    catalog: Catalog = None
    storage: Storage = None

    def at(self, location: str, *, native: bool = False, evolve: str = "fail", partition_by: str = "") -> "LakeTable":
        """Return the table that options name; raise ``SettingsError`` if they contradict each other."""
        from firearrow.spark.lake.table import FORMATS, LakeTable

        if self.form not in FORMATS:
            raise SettingsError(f"--format is one of {', '.join(FORMATS)}, not {self.form!r}")
        where = location if "://" in location or not location else os.path.abspath(location)
        settings = (pairs(self.catalog), native, pairs(self.storage), evolve, partition_by)
        return LakeTable(self.form, where, self.table, *settings).checked()  # type: ignore[arg-type]


@dataclass(frozen=True)
class NewTableOptions(OptionGroup):
    """A lake table that a job makes if it does not exist, but for its location."""

    named: TableOptions
    native: Native = False
    evolve: Evolution = "fail"
    partition_by: Partitions = ""

    def at(self, location: str) -> "LakeTable":
        """Return the table."""
        return self.named.at(location, native=self.native, evolve=self.evolve, partition_by=self.partition_by)


@dataclass(frozen=True)
class HeldTableOptions(OptionGroup):
    """A lake table with its location."""

    form: Format = "iceberg"
    location: Location = ""
    table: Table = ""
    catalog: Catalog = None
    storage: Storage = None
    native: Native = False

    @property
    def lake_table(self) -> "LakeTable":
        """The table."""
        return TableOptions(self.form, self.table, self.catalog, self.storage).at(self.location, native=self.native)


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(OptionGroup):
    """Messages of the past: the files of a store, or a table."""

    store: Annotated[str, typer.Option(help="Directory of a broker's store: read its files instead of a table.")] = ""
    held: HeldTableOptions

    @property
    def lake_table(self) -> "LakeTable | None":
        """The table that holds them; None if store files do."""
        return None if self.store else self.held.lake_table


def history(spark: "SparkSession", store: str, table: "LakeTable | None") -> "DataFrame":
    """Return the rows of a table, or of the files of a store."""
    if table is None:
        return spark.read.format("rocketmq-store").load(store)
    from firearrow.spark.lake import access

    return access.read(spark, table)


def reached(context: typer.Context, servers: str) -> dict[str, str]:
    """Return the connection options of source and sink that were given to ``firearrow``."""
    reach = reach_of(context)
    tls = reach.get("tls", ClientTls())
    found = {
        "nameServer": name_servers(context, servers),
        "tls": "true" if tls.enabled else "",
        "tlsVerify": "true" if tls.verify_server else "",
        "tlsCaFile": tls.trust_path,
        "accessKey": reach.get("access_key", ""),
        "secretKey": reach.get("secret_key", ""),
        "signatureMethod": _other_method(reach),
    }
    return {name: value for name, value in found.items() if value}


def _other_method(reach: AccessOptions) -> str:
    method = reach.get("signature_method", SignatureMethod.SHA1)
    return "" if method is SignatureMethod.SHA1 else method.value


def pairs(given: list[str] | None) -> dict[str, str]:
    """Return the settings of options that were given as key=value."""
    found = {}
    for pair in given or ():
        key, mark, value = pair.partition("=")
        if not mark:
            raise SettingsError(f"{pair!r} is not key=value")
        found[key] = value
    return found
