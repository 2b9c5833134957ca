"""Storage settings in the form of each library."""

import pytest

from firearrow.errors import SettingsError
from firearrow.spark.lake.storage import KNOWN, delta_settings, filesystem, reach, spark_settings
from firearrow.spark.lake.table import LakeTable

GIVEN = {"s3.endpoint": "http://h:9000", "s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "r"}


def test_every_setting_reaches_every_library() -> None:
    whole = {name: f"http://{name}" for name in KNOWN}
    for said in (delta_settings(whole) or {}, spark_settings(whole)):
        assert set(whole.values()) <= set(said.values())


def test_sparks_file_system_gets_the_settings() -> None:
    assert spark_settings(GIVEN) == {
        "fs.s3a.endpoint": "http://h:9000",
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint.region": "r",
        "fs.s3a.path.style.access": "true",
    }
    assert spark_settings({}) == {}
    temporary = spark_settings({"s3.session-token": "t"})
    assert temporary["fs.s3a.aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")
    assert temporary["fs.s3a.impl.disable.cache"] == "true"


class Session:
    """A session of Spark, as far as its settings go."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.conf = self

    def set(self, name: str, value: str) -> None:
        self.found[name] = value


def test_a_session_is_told_all_of_them() -> None:
    session = Session()
    reach(session, GIVEN)  # type: ignore[arg-type]
    assert session.found == spark_settings(GIVEN)


def test_the_path_inside_a_store() -> None:
    assert filesystem("s3a://lake/orders/", GIVEN)[1] == "lake/orders"
    assert filesystem("/lake/orders")[1] == "/lake/orders"


def test_which_tables_take_them() -> None:
    for form in ("parquet", "delta"):
        LakeTable(form, "s3://lake/t", storage=GIVEN).checked()
    LakeTable("delta", "s3://lake/t", native=True, storage=GIVEN).checked()
    with pytest.raises(SettingsError, match=r"spark.sql.catalog.NAME.s3.endpoint"):
        LakeTable("iceberg", name="lake.shop.orders", native=True, storage=GIVEN).checked()
    with pytest.raises(SettingsError, match=r"no storage setting s3.end; they are s3.endpoint"):
        LakeTable("delta", "s3://lake/t", storage={"s3.end": "x"}).checked()
