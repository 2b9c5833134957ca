"""The output of ``firearrow consume`` for a message."""

import msgspec
import pytest

from firearrow.cli.messages.message_printer import renderer
from firearrow.errors import SettingsError
from firearrow.model import EpochMs, MessageQueue, PhysicalOffset, QueueOffset, StoredMessage
from firearrow.model.message import Host

QUEUE = MessageQueue("orders", "broker-a", 3)
HOST = Host("127.0.0.1", 10911)
MESSAGE = StoredMessage(
    topic="orders",
    body=b"\xff one",
    properties={"TAGS": "new", "KEYS": "a b", "UNIQ_KEY": "ID"},
    flag=0,
    sys_flag=0,
    queue_id=3,
    queue_offset=QueueOffset(7),
    physical_offset=PhysicalOffset(0),
    born_timestamp=EpochMs(0),
    born_host=HOST,
    store_timestamp=EpochMs(1_700_000_000_000),
    store_host=HOST,
    reconsume_times=0,
    prepared_transaction_offset=PhysicalOffset(0),
    body_crc=0,
    store_size=0,
)


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("%t/%b/%p/%o", b"orders/broker-a/3/7"),
        (r"%k|%g|%s\n", b"a b|new|\xff one\n"),
        (r"%T\t%i\t%S", b"1700000000000\tID\t5"),
        ("%h", b"TAGS=new,KEYS=a b,UNIQ_KEY=ID"),
        (r"100%% \q%o\\", rb"100% \q7" + b"\\"),
        (r"%o\r\0", b"7\r\0"),
        ("%o\\", b"7\\"),
        ("raw", b"\xff one\n"),
    ],
)
def test_a_format_prints_its_fields(form: str, printed: bytes) -> None:
    assert renderer(form)(MESSAGE, QUEUE) == printed


@pytest.mark.parametrize("form", ["xml", "", "%z", "%"])
def test_a_format_that_does_not_exist_is_refused(form: str) -> None:
    with pytest.raises(SettingsError, match="--format"):
        renderer(form)


def test_a_timed_message_says_when_it_was_due() -> None:
    timed = msgspec.structs.replace(MESSAGE, properties={"TIMER_DELIVER_MS": "1700000000123"})
    assert renderer("%D")(timed, QUEUE) == b"1700000000123"
    assert renderer("%D")(MESSAGE, QUEUE) == b""
    assert msgspec.json.decode(renderer("json")(timed, QUEUE))["dueTimestamp"] == 1_700_000_000_123
    assert "dueTimestamp" not in msgspec.json.decode(renderer("json")(MESSAGE, QUEUE))
