"""The kinds of Iceberg catalogs, by pyiceberg's names: what each needs, checked before anything is opened.

pyiceberg brings the clients of Glue, DynamoDB, Hive and BigQuery only with an extra of its own. A catalog is reached
from the driver alone, so its extra is needed there alone.
"""

import difflib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from firearrow.errors import SettingsError


class CatalogKind(Struct, frozen=True):
    """The needs of a kind of catalog: properties and modules."""

    needs: tuple[str, ...] = ()
    """Properties that must be given."""
    module: str = ""
    """A module that its client needs beside pyiceberg."""
    extra: str = ""
    """The extra of pyiceberg that brings it."""
    example: str = ""
    """An example of its address."""


KINDS: Final = {
    "rest": CatalogKind(("uri",), example="https://host/path"),
    "sql": CatalogKind(("uri",), "sqlalchemy", "sql-sqlite", "sqlite:////path/of/catalog.db"),
    "glue": CatalogKind((), "boto3", "glue"),
    "hive": CatalogKind(("uri",), "thrift", "hive", "thrift://host:9083"),
    "dynamodb": CatalogKind((), "boto3", "dynamodb"),
    "bigquery": CatalogKind(("gcp.bigquery.project-id",), "google.cloud.bigquery", "bigquery"),
}
UNITY: Final = (
    "Unity Catalog speaks Iceberg's REST protocol: give type=rest, uri=https://WORKSPACE/api/2.1/unity-catalog/"
    "iceberg-rest, warehouse=CATALOG and token=TOKEN"
)


def require_complete(properties: Mapping[str, str]) -> None:
    """Raise ``SettingsError`` unless the properties of a catalog name a kind that can be opened here."""
    name = kind_of(properties)
    if not name:
        if "py-catalog-impl" in properties:
            return
        raise SettingsError(f"the catalog needs its type: --catalog type=... with one of {', '.join(KINDS)}")
    kind = KINDS.get(name)
    if kind is None:
        raise SettingsError(_strange(name))
    missing = [need for need in kind.needs if not properties.get(need)]
    if missing:
        given = " and ".join(f"--catalog {need}=..." for need in missing)
        raise SettingsError(f"a catalog of type {name} needs {given}")
    if kind.module and not _is_there(kind.module):
        raise SettingsError(
            f"a catalog of type {name} needs {kind.module}, which is not installed: "
            f"pip install 'pyiceberg[{kind.extra}]'"
        )
    uri = properties.get("uri", "")
    if "uri" in kind.needs and "://" not in uri:
        raise SettingsError(f"a catalog of type {name} cannot be at {uri!r}: give --catalog uri={kind.example}")


def kind_of(properties: Mapping[str, str]) -> str:
    """The kind of a catalog by its properties; empty if they do not say it."""
    return properties.get("type", "") or _inferred(properties.get("uri", ""))


def _inferred(uri: str) -> str:
    """The type that pyiceberg infers from an address; empty if it is not clear."""
    scheme = uri.partition("://")[0].partition("+")[0]
    return {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}.get(scheme, "")


def _strange(name: str) -> str:
    if name in ("unity", "databricks"):
        return UNITY
    near = difflib.get_close_matches(name, KINDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no catalog of type {name!r}; they are {', '.join(KINDS)}{hint}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a parent
        return False
