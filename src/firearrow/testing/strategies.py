"""Hypothesis strategies for messages, properties and records.

They draw only legal values, which the codecs must encode and decode unchanged. Fuzzers make hostile input.
"""

from typing import Literal

from hypothesis import strategies as st

from firearrow.model import EpochMs, Host, Message, PhysicalOffset, QueueOffset
from firearrow.model.flags import COMPRESSION_MASK, HOST_V6_MASK
from firearrow.record.compression import Codec, compress, with_codec
from firearrow.record.encode import Draft
from firearrow.record.hosts import HostBytes, host_bytes
from firearrow.record.properties import StoredProperties, encode_properties

_NAME_LETTERS = "%|abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_MAX_PROPERTIES = 6

int32s = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
queue_offsets = offsets.map(QueueOffset)
physical_offsets = offsets.map(PhysicalOffset)
timestamps = st.integers(0, 2**63 - 1).map(EpochMs)
bodies = st.binary(max_size=300)
topics = st.text(_NAME_LETTERS, min_size=1, max_size=127)
"""Topics that records of version 1 hold."""
long_topics = st.text(_NAME_LETTERS, min_size=121, max_size=248).map("%RETRY%".__add__)
"""Topics that need records of version 2."""
groups = st.text(_NAME_LETTERS, min_size=1, max_size=120)


def property_texts(*, max_size: int = 20) -> st.SearchStrategy[str]:
    """Text that may stand in a property: anything but the separators, NUL and lone surrogates."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x01\x02")
    return st.text(letters, min_size=1, max_size=max_size)


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Properties of a message, the well-known keys among them; never the stamp's own key."""
    keys = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "#", "__CRC32"]) | property_texts()
    legal = keys.filter(lambda key: key != "__CRC32#")
    return st.dictionaries(legal, property_texts(max_size=60), max_size=_MAX_PROPERTIES)


def stored_properties() -> st.SearchStrategy[StoredProperties]:
    """Properties as a record holds them."""
    return properties().map(encode_properties)


def addresses(version: Literal[4, 6] | None = None) -> st.SearchStrategy[Host]:
    """A host of IP version 4 or 6, or of either."""
    ips = st.ip_addresses(v=version).map(str)
    unmapped = ips.filter(lambda ip: not ip.startswith("::ffff:"))
    return st.builds(Host, unmapped, st.integers(0, 65_535))


def hosts(version: Literal[4, 6] | None = None) -> st.SearchStrategy[HostBytes]:
    """A host as a record holds it."""
    return addresses(version).map(host_bytes)


def messages(topic: st.SearchStrategy[str] = topics) -> st.SearchStrategy[Message]:
    """Messages as applications send them."""
    return st.builds(Message, topic, bodies, properties(), int32s)


def sys_flags() -> st.SearchStrategy[int]:
    """Any sysFlag that does not claim a compressed body."""
    return int32s.map(lambda bits: bits & ~(COMPRESSION_MASK | 1))


@st.composite
def drafts(draw: st.DrawFn, topic: st.SearchStrategy[str] = topics | long_topics) -> Draft:
    """Records without a place: either version, either kind of each host, the body plain."""
    return Draft(
        topic=draw(topic),
        queue_id=draw(int32s),
        body=draw(bodies),
        properties=draw(stored_properties()),
        born_timestamp=draw(timestamps),
        born_host=draw(hosts()),
        store_host=draw(hosts()),
        flag=draw(int32s),
        sys_flag=draw(sys_flags()),
        reconsume_times=draw(int32s),
        prepared_transaction_offset=draw(physical_offsets),
    )


@st.composite
def compressed_bodies(draw: st.DrawFn) -> tuple[bytes, bytes, int]:
    """A plain body, the same compressed, and the sysFlag that says how."""
    plain = draw(bodies)
    codec = draw(st.sampled_from(Codec))
    return plain, compress(plain, codec), with_codec(draw(sys_flags()) & ~HOST_V6_MASK, codec)
