"""Which catalogs are accepted, and what is said of the others."""

import pytest

from firearrow.errors import SettingsError
from firearrow.spark.lake import catalogs
from firearrow.spark.lake.catalogs import KINDS, require_complete
from firearrow.spark.lake.table import LakeTable


@pytest.mark.parametrize(
    "given",
    [
        {"type": "rest", "uri": "http://catalog:8181"},
        {"uri": "https://catalog:8181", "token": "t"},
        {"type": "sql", "uri": "sqlite:////lake/catalog.db"},
        {"uri": "postgresql+psycopg2://catalog/lake"},
        {"py-catalog-impl": "mine.Catalog"},
    ],
)
def test_what_pyiceberg_opens_is_accepted(given: dict[str, str]) -> None:
    require_complete(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"type": "rest"}, "a catalog of type rest needs --catalog uri=..."),
        ({"type": "reset", "uri": "http://h"}, "no catalog of type 'reset'.*did you mean rest"),
        ({"type": "unity"}, "speaks Iceberg's REST protocol: give type=rest"),
        ({"warehouse": "w"}, "needs its type"),
        ({"uri": "ftp://h"}, "needs its type"),
    ],
)
def test_what_it_cannot_open_is_told_with_what_to_do(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        require_complete(given)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.module])
def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(catalogs, "find_spec", lambda _: None)
    given = {"type": name, **dict.fromkeys(KINDS[name].needs, "x")}
    table = LakeTable("iceberg", "s3://lake", "shop.orders", given)
    with pytest.raises(SettingsError, match=rf"pip install 'pyiceberg\[{KINDS[name].extra}\]'"):
        table.checked()


def test_every_kind_is_one_of_pyicebergs_with_an_extra_of_its() -> None:
    from importlib.metadata import metadata

    from pyiceberg.catalog import CatalogType

    assert set(KINDS) == {kind.value for kind in CatalogType} - {"in-memory"}
    extras = set(metadata("pyiceberg").get_all("Provides-Extra") or ())
    assert {kind.extra for kind in KINDS.values() if kind.extra} <= extras
