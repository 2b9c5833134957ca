"""The KV configuration: texts by namespace and key, set by mqadmin's updateKvConfig, and the form of its file.

A ``KvConfig`` is never changed in place: ``put`` and ``delete`` return another one, which takes effect once it is on
disk. The file is Apache's ``kvConfig.json``, ``{"configTable":{namespace:{key:value}}}``, read in any form of
fastjson's. A namespace whose last key was deleted stays, empty, as in Apache. Java: ``KVConfigManager``.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.protocol.bodies.body import Body, empty_map

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of strictly ordered topics: topic to ``broker-a:4;broker-b:4``."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest size of the file; a text that would make it larger is refused."""


class _File(Body, frozen=True, kw_only=True):
    config_table: dict[str, dict[str, str | None]] = empty_map()


class KvConfig:
    """The texts of all namespaces, by key."""

    def __init__(self, tables: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._tables = tables or {}

    def __eq__(self, other: object) -> bool:
        """Whether all texts are equal."""
        return isinstance(other, KvConfig) and self._tables == other._tables

    __hash__ = None  # type: ignore[assignment]

    def get(self, namespace: str, key: str) -> str | None:
        """Return a text, or None."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """Return the texts of a namespace, or None if it never had one."""
        return self._tables.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> "KvConfig":
        """Return a copy with one text added or changed."""
        return KvConfig({**self._tables, namespace: {**self._tables.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> "KvConfig":
        """Return a copy without one text."""
        if self.get(namespace, key) is None:
            return self
        kept = {name: value for name, value in self._tables[namespace].items() if name != key}
        return KvConfig({**self._tables, namespace: kept})

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return msgspec.json.encode({"configTable": self._tables})

    @classmethod
    def decode(cls, data: bytes) -> "KvConfig":
        """Read the bytes of the file; raise ``BadBody`` if they do not parse."""
        tables = fastjson.decode(data, _File).config_table
        return cls({ns: {k: v for k, v in table.items() if v is not None} for ns, table in tables.items()})
