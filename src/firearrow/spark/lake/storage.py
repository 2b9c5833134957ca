"""The storage of a lake: locations and settings, in the form that each library takes.

Settings have pyiceberg's names (``s3.endpoint``, ``s3.access-key-id``, ``s3.secret-access-key``, ``s3.session-token``,
``s3.region``). They reach the catalog, the committer, the writers of all tasks and, by `reach`, Spark's own readers and
writers. Without any, every process looks for them where S3 clients do: in its environment and its machine's role.
Spark's own scheme for S3 is ``s3a://``, the other libraries' ``s3://``; both are accepted and translated.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = Mapping[str, str]
NONE: Final[Settings] = {}

_S3: Final = ("s3://", "s3a://", "s3n://")
_ARROW: Final = {
    "s3.endpoint": "endpoint_override",
    "s3.access-key-id": "access_key",
    "s3.secret-access-key": "secret_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
}
_DELTA: Final = {
    "s3.endpoint": "AWS_ENDPOINT_URL",
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
    "s3.region": "AWS_REGION",
}
_SPARK: Final = {
    "s3.endpoint": "fs.s3a.endpoint",
    "s3.access-key-id": "fs.s3a.access.key",
    "s3.secret-access-key": "fs.s3a.secret.key",
    "s3.session-token": "fs.s3a.session.token",
    "s3.region": "fs.s3a.endpoint.region",
}
_TEMPORARY: Final = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
KNOWN: Final = tuple(_ARROW)


def known(properties: Settings) -> dict[str, str]:
    """Return the settings among properties of a catalog, which may write ``client.region`` for ``s3.region``."""
    found = {name: properties.get(name) or properties.get(name.replace("s3.", "client.", 1)) for name in KNOWN}
    return {name: value for name, value in found.items() if value}


def is_s3(location: str) -> bool:
    """Whether a location is in S3 or a compatible store."""
    return location.startswith(_S3)


def for_spark(location: str) -> str:
    """Return a location in the form of Spark's own writers."""
    return f"s3a://{location.partition('://')[2]}" if is_s3(location) else location


def for_python(location: str) -> str:
    """Return a location in the form of pyarrow, pyiceberg and deltalake."""
    return f"s3://{location.partition('://')[2]}" if is_s3(location) else location


def filesystem(location: str, settings: Settings = NONE) -> tuple[fs.FileSystem, str]:
    """Return the file system of a location, and the path inside it."""
    given: dict[str, Any] = {_ARROW[name]: value for name, value in settings.items() if name in _ARROW}
    if is_s3(location) and given:
        return fs.S3FileSystem(**given), location.partition("://")[2].rstrip("/")
    if "://" in location:
        found, path = fs.FileSystem.from_uri(for_python(location))
        return found, path.rstrip("/")
    return fs.LocalFileSystem(), location.rstrip("/")


def delta_settings(settings: Settings) -> dict[str, str] | None:
    """Settings as deltalake takes them."""
    found = {_DELTA[name]: value for name, value in settings.items() if name in _DELTA}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found or None


def spark_settings(settings: Settings) -> dict[str, str]:
    """Settings as Spark's file system of S3 takes them, for a session."""
    found = {_SPARK[name]: value for name, value in settings.items() if name in _SPARK}
    if "fs.s3a.endpoint" in found:
        found["fs.s3a.path.style.access"] = "true"  # stores other than Amazon's seldom have a name for each bucket
    if "fs.s3a.session.token" in found:
        found["fs.s3a.aws.credentials.provider"] = _TEMPORARY
        found["fs.s3a.impl.disable.cache"] = "true"  # an open file system would keep keys that have expired
    return found


def reach(spark: "SparkSession", settings: Settings) -> None:
    """Let Spark's own readers and writers of this session use the settings, checkpoints included."""
    for name, value in spark_settings(settings).items():
        spark.conf.set(name, value)
