"""Accepted catalogs, and the errors for the others."""

import pytest

from firearrow.errors import SettingsError
from firearrow.spark.lake import catalogs, iceberg
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
        ({"type": "rest", "uri": "nonsense"}, "cannot be at 'nonsense': give --catalog uri=https://"),
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


@pytest.mark.parametrize(
    ("location", "more"), [("", {}), ("s3://lake", {}), ("", {"warehouse": "prod"}), ("s3://lake", {"warehouse": "w"})]
)
def test_a_rest_catalog_gets_the_warehouse_that_was_named_and_no_location(
    monkeypatch: pytest.MonkeyPatch, location: str, more: dict[str, str]
) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda _name, **given: asked.append(given))
    given = {"uri": "http://catalog:8181", **more}
    iceberg.catalog(LakeTable("iceberg", location, "shop.orders", given).checked())
    assert asked == [given]


def test_other_catalogs_get_the_location_as_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda _name, **given: asked.append(given))
    given = {"uri": "postgresql://catalog/lake"}
    iceberg.catalog(LakeTable("iceberg", "s3a://lake", "shop.orders", given).checked())
    assert asked == [{**given, "warehouse": "s3://lake"}]
    with pytest.raises(SettingsError, match="needs a location"):
        LakeTable("iceberg", "", "shop.orders", given).checked()


def test_every_kind_is_one_of_pyicebergs_with_an_extra_of_its() -> None:
    from importlib.metadata import metadata

    from pyiceberg.catalog import CatalogType

    assert set(KINDS) == {kind.value for kind in CatalogType} - {"in-memory"}
    extras = set(metadata("pyiceberg").get_all("Provides-Extra") or ())
    assert {kind.extra for kind in KINDS.values() if kind.extra} <= extras
