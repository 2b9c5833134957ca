"""Whole records and batches for the fuzzers to start from."""

from firearrow.model import EpochMs, Host, Message, PhysicalOffset, QueueOffset
from firearrow.record.batch import encode_batch
from firearrow.record.columns import Envelope
from firearrow.record.compression import Codec, compress, with_codec
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties

V4 = host_bytes(Host("10.0.0.1", 10911))
V6 = host_bytes(Host("2001:db8::1", 10911))
NOW = EpochMs(1_700_000_000_000)
PROPERTIES = encode_properties({"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "C0A80001000018B4AAC2000000000000"})
ENVELOPE = Envelope("TopicA", V4, V4)


def drafts() -> list[Draft]:
    """One draft for each form of a record."""
    forms = [Draft("TopicA", 1, b"hello", PROPERTIES, NOW, born, store) for born in (V4, V6) for store in (V4, V6)]
    forms.append(Draft("%RETRY%" + "g" * 130, 1, b"hello", PROPERTIES, NOW, V4, V4))
    forms.append(Draft("T", 0, batch(), PROPERTIES, NOW, V4, V4, sys_flag=0xC0))
    for codec in Codec:
        body = compress(b"hello, hello, hello" * 10, codec)
        forms.append(Draft("TopicA", 1, body, PROPERTIES, NOW, V4, V4, sys_flag=with_codec(0, codec)))
    return forms


def records() -> list[bytes]:
    """Records of every form, with and without a stamp, and a few in a row."""
    made = [
        encode(form, QueueOffset(5), PhysicalOffset(1000), NOW, stamped=stamped)
        for form in drafts()
        for stamped in (True, False)
    ]
    return [*made, b"".join(made[:4]), made[0][:-1], b""]


def batch() -> bytes:
    """A batch as a client sends it."""
    return encode_batch([Message("T", b"one", {"TAGS": "a"}, 7), Message("T", b""), Message("T", b"3", {"k": "v"})])
