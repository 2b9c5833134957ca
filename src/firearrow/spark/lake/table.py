"""What a lake table is called and where it is. Plain data that travels to executors as options."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from firearrow.errors import SettingsError

FORMATS: Final = ("parquet", "iceberg", "delta")
_CATALOG: Final = "catalog."

Format = Literal["parquet", "iceberg", "delta"]


class LakeTable(Struct, frozen=True):
    """A table.

    ``location`` is a directory or URI: of the table itself for Parquet and Delta, of the warehouse for Iceberg, whose
    tables have a ``name`` (``namespace.table``) in a catalog. ``catalog`` holds properties as pyiceberg takes them;
    without any it is a SQLite file in the warehouse. With ``native`` the runtime inside Spark does the work, and
    ``name`` is the table's name in Spark's catalog (``catalog.namespace.table``); Delta tables may go by location.
    """

    format: Format
    location: str = ""
    name: str = ""
    catalog: Mapping[str, str] = {}
    native: bool = False

    def checked(self) -> "LakeTable":
        """This table, or ``SettingsError`` when it does not say enough."""
        if self.format not in FORMATS:
            raise SettingsError(f"tables are {', '.join(FORMATS)}, not {self.format!r}")
        if self.native and self.format == "iceberg" and not self.name:
            raise SettingsError("a native Iceberg table needs its name in Spark's catalog: catalog.namespace.table")
        if not self.native and not self.location:
            raise SettingsError(f"a {self.format} table needs a location")
        if not self.native and "://" not in self.location and not self.location.startswith("/"):
            raise SettingsError(
                f"location {self.location!r} means another directory to each process of Spark: give it from the root on"
            )
        if not self.native and self.format == "iceberg" and "." not in self.name:
            raise SettingsError(
                f"an Iceberg table needs a name with its namespace, like shop.orders, not {self.name!r}"
            )
        return self

    def options(self) -> dict[str, str]:
        """The options of the sink that writes it."""
        found = {"tableFormat": self.format, "location": self.location, "name": self.name}
        return found | {f"{_CATALOG}{key}": value for key, value in self.catalog.items()}


def table_of(options: Mapping[str, str]) -> LakeTable:
    """The table that options of the sink name. Spark lowers the case of option names; catalog properties are lower."""
    lowered = {key.lower(): value for key, value in options.items()}
    catalog = {key[len(_CATALOG) :]: value for key, value in lowered.items() if key.startswith(_CATALOG)}
    form = lowered.get("tableformat", "")
    if form not in FORMATS:
        raise SettingsError(f"option tableFormat is one of {', '.join(FORMATS)}, not {form!r}")
    return LakeTable(form, lowered.get("location", ""), lowered.get("name", ""), catalog).checked()  # type: ignore[arg-type]


def beside(table: LakeTable, suffix: str) -> LakeTable:
    """A table next to this one, for what belongs to it: ``orders`` -> ``orders_quarantine``."""
    if table.name:
        return LakeTable(table.format, table.location, f"{table.name}_{suffix}", table.catalog, table.native)
    return LakeTable(table.format, f"{table.location.rstrip('/')}_{suffix}", "", table.catalog, table.native)
