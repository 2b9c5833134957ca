"""The name and location of a lake table. Plain data that travels to executors as options."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.spark.lake.catalogs import kind_of, require_complete
from firearrow.spark.lake.fit import EVOLVE, Evolve
from firearrow.spark.lake.partitioning import Rules, parse
from firearrow.spark.lake.storage import KNOWN, known

FORMATS: Final = ("parquet", "iceberg", "delta")
_CATALOG: Final = "catalog."
_STORAGE: Final = "storage."

Format = Literal["parquet", "iceberg", "delta"]


class LakeTable(Struct, frozen=True):
    """A table.

    ``location`` is a directory or URI: of the table itself for Parquet and Delta, of the warehouse for Iceberg, whose
    tables have a ``name`` (``namespace.table``) in a catalog; a REST catalog places them itself, and they need none.
    ``catalog`` holds properties as pyiceberg takes them; without any it is a SQLite file in the warehouse. ``storage``
    holds settings of the file system (see `storage`), which reach catalog, committer, writers, and Spark's readers and
    checkpoints. With ``native`` the runtime inside Spark does the work, and ``name`` is the table's name in Spark's
    catalog (``catalog.namespace.table``); Delta tables may go by location.

    ``evolve`` says how the table may change to take rows that do not fit it: ``fail`` not at all, ``add`` by new
    columns, ``widen`` also by wider types. ``partition_by`` is what a table is partitioned by when it is created, such
    as ``day(store_timestamp), topic``; a table that exists keeps its partitions.
    """

    format: Format
    location: str = ""
    name: str = ""
    catalog: Mapping[str, str] = {}
    native: bool = False
    storage: Mapping[str, str] = {}
    evolve: Evolve = "fail"
    partition_by: str = ""

    @property
    def rules(self) -> Rules:
        """The rules by which the table is to be partitioned."""
        return parse(self.partition_by)

    @property
    def called(self) -> str:
        """The name of the table in texts: its name, or its location."""
        return self.name or self.location

    @property
    def storage_settings(self) -> dict[str, str]:
        """The settings of the file system, from ``storage`` and ``catalog``."""
        return known({**self.catalog, **self.storage})

    @property
    def is_placed_by_catalog(self) -> bool:
        """Whether the table is where its catalog puts it: a REST catalog knows its warehouses itself, by name."""
        return self.format == "iceberg" and kind_of(self.catalog) == "rest"

    def checked(self) -> "LakeTable":
        """Return this table; raise ``SettingsError`` if it is incomplete."""
        self._check_settings()
        if not self.native:
            self._check_location()
        if self.format == "iceberg":
            (self._check_native_iceberg if self.native else self._check_iceberg)()
        return self

    def _check_settings(self) -> None:
        if self.format not in FORMATS:
            raise SettingsError(f"tables are {', '.join(FORMATS)}, not {self.format!r}")
        if self.evolve not in EVOLVE:
            raise SettingsError(f"--evolve is one of {', '.join(EVOLVE)}, not {self.evolve!r}")
        if self.format == "parquet" and (self.rules or self.evolve != "fail"):
            raise SettingsError("plain Parquet has no log that could note columns or partitions: use iceberg or delta")
        unknown = sorted(set(self.storage) - set(KNOWN))
        if unknown:
            raise SettingsError(f"there is no storage setting {', '.join(unknown)}; they are {', '.join(KNOWN)}")

    def _check_location(self) -> None:
        if not self.location and not self.is_placed_by_catalog:
            raise SettingsError(f"a {self.format} table needs a location")
        if self.location and "://" not in self.location and not self.location.startswith("/"):
            raise SettingsError(
                f"location {self.location!r} is relative; give an absolute path, the same for every process of Spark"
            )

    def _check_native_iceberg(self) -> None:
        if not self.name:
            raise SettingsError("a native Iceberg table needs its name in Spark's catalog: catalog.namespace.table")
        if self.storage:
            raise SettingsError(
                "Iceberg's own runtime in Spark has settings of its own for storage: give them as settings of Spark's "
                "catalog, --conf spark.sql.catalog.NAME.s3.endpoint=... and the like"
            )

    def _check_iceberg(self) -> None:
        if "." not in self.name:
            raise SettingsError(
                f"an Iceberg table needs a name with its namespace, like shop.orders, not {self.name!r}"
            )
        scheme, is_uri, _ = self.location.partition("://")
        if is_uri and scheme != "file" and not self.catalog:
            raise SettingsError(
                f"an Iceberg table at {self.location} needs a catalog, such as a REST or SQL one: the default "
                "catalog, a file, works only on a local file system"
            )
        if self.catalog:
            require_complete(self.catalog)

    def options(self) -> dict[str, str]:
        """The options of the sink that writes it."""
        found = {"tableFormat": self.format, "location": self.location, "name": self.name, "evolve": self.evolve}
        found |= {f"{_CATALOG}{key}": value for key, value in self.catalog.items()}
        return found | {f"{_STORAGE}{key}": value for key, value in self.storage.items()}


def table_of(options: Mapping[str, str]) -> LakeTable:
    """The table that options of the sink name. Spark lowers the case of option names; catalog properties are lower."""
    lowered = {key.lower(): value for key, value in options.items()}
    catalog = {key[len(_CATALOG) :]: value for key, value in lowered.items() if key.startswith(_CATALOG)}
    storage = {key[len(_STORAGE) :]: value for key, value in lowered.items() if key.startswith(_STORAGE)}
    form = lowered.get("tableformat", "")
    if form not in FORMATS:
        raise SettingsError(f"option tableFormat is one of {', '.join(FORMATS)}, not {form!r}")
    place, name = lowered.get("location", ""), lowered.get("name", "")
    evolve = lowered.get("evolve", "fail")
    return LakeTable(form, place, name, catalog, storage=storage, evolve=evolve).checked()  # type: ignore[arg-type]


def beside(table: LakeTable, suffix: str) -> LakeTable:
    """A table next to this one, for what belongs to it: ``orders`` -> ``orders_quarantine``."""
    if table.name:
        return replace(table, name=f"{table.name}_{suffix}")
    return replace(table, location=f"{table.location.rstrip('/')}_{suffix}")
