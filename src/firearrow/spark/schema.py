"""The row: what a message is as columns, and what of it a user asked for. Pure, no Spark and no Arrow is imported.

Every column may be null in Spark's eyes. A user schema chooses among them, in any order; it cannot change a type, since
what is not read at all is what makes pruning worth while.

``row_id`` names a row for good, wherever it is read: from a master, a replica or the files of the store::

    {broker}/{topic}/{queue_id}/{queue_offset}@{physical_offset}

The place in the log tells messages of a topic apart from those of a topic of the same name that was deleted before.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from firearrow.errors import SettingsError


class Column(NamedTuple):
    """A column by its name, its type in Spark's SQL, and what it says."""

    name: str
    type: str
    says: str


ROW: Final = (
    Column("topic", "string", "Topic."),
    Column("broker", "string", "Name of the broker that holds the queue."),
    Column("queue_id", "int", "Number of the queue."),
    Column("queue_offset", "bigint", "Place in the queue."),
    Column("physical_offset", "bigint", "Place of the record in the broker's log."),
    Column("message_id", "string", "Id of the place: store host and physical offset, as `mqadmin` prints it."),
    Column("unique_key", "string", "Id that the producer gave the message; null without."),
    Column("keys", "string", "Keys, separated by spaces; null without."),
    Column("tags", "string", "Tag; null without."),
    Column("body", "binary", "Body, decompressed."),
    Column("properties", "map<string,string>", "All properties, those of RocketMQ included."),
    Column("born_timestamp", "timestamp", "When the producer made the message, to the millisecond."),
    Column("store_timestamp", "timestamp", "When the broker stored it, to the millisecond."),
    Column("born_host", "string", "Address of the producer, `ip:port`."),
    Column("store_host", "string", "Address of the broker, `ip:port`."),
    Column("flag", "int", "Flag of the application."),
    Column("sys_flag", "int", "Flags of RocketMQ; bit 0 (compressed) is cleared when `body` is decompressed."),
    Column("reconsume_times", "int", "How often the message was delivered before."),
    Column("delay_level", "int", "Delay level that the message waits for; null without."),
    Column("transaction_state", "string", "NONE, PREPARED, COMMIT or ROLLBACK."),
    Column("prepared_transaction_offset", "bigint", "Place of the prepared message in the log, or 0."),
    Column("body_crc", "int", "CRC-32 of the body as stored, top bit cleared."),
    Column("store_size", "int", "Bytes of the record in the log."),
    Column("row_id", "string", "Name of the row for good: broker/topic/queue/offset@place."),
)

NAMES: Final = tuple(column.name for column in ROW)
ROW_DDL: Final = ", ".join(f"{column.name} {column.type}" for column in ROW)
"""The whole row as Spark's DDL."""

_TYPES: Final = {column.name: column.type for column in ROW}
_SAME: Final = {"integer": "int", "long": "bigint"}


def row_id(broker: str, topic: str, queue_id: int, queue_offset: int, physical_offset: int) -> str:
    """The name of one row."""
    return f"{broker}/{topic}/{queue_id}/{queue_offset}@{physical_offset}"


def chosen(fields: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The columns that a schema (names and Spark's simple type names) asks for; what the row does not have is said."""
    names = []
    for name, given in fields:
        wanted = _TYPES.get(name)
        if wanted is None:
            raise SettingsError(f"there is no column {name!r}; the row has {', '.join(NAMES)}")
        if _SAME.get(given, given) != wanted:
            raise SettingsError(f"column {name} is {wanted}, not {given}; leave its type as it is and cast it after")
        names.append(name)
    if not names:
        raise SettingsError("the schema asks for no column; count rows by asking for queue_offset alone")
    return tuple(names)


def ddl(names: Sequence[str]) -> str:
    """The DDL of some columns."""
    return ", ".join(f"{name} {_TYPES[name]}" for name in names)
