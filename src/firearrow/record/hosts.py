"""Hosts in a record: 4 or 16 bytes of address, then 4 of port.

An IPv4-mapped IPv6 address (``::ffff:10.0.0.1``) is stored as IPv4, as in Java. Must agree with Java's
``MessageExt.socketAddress2ByteBuffer``.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NewType

from firearrow.errors import IllegalMessage
from firearrow.model import Host

HostBytes = NewType("HostBytes", bytes)

V4_SIZE: Final = 8
_HOSTS_REMEMBERED: Final = 4096


def host_bytes(address: Host) -> HostBytes:
    """An address as a record holds it."""
    try:
        ip = ip_address(address.ip)
        port = address.port.to_bytes(4, "big")
    except (ValueError, OverflowError) as wrong:
        raise IllegalMessage(f"{address} is not a numeric host and port: {wrong}") from wrong
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return HostBytes(ip.packed + port)


@lru_cache(_HOSTS_REMEMBERED)
def host_address(raw: bytes) -> Host:
    """The address in 8 or 20 bytes of a record. Cached, because few hosts write many messages."""
    return Host(str(ip_address(raw[:-4])), int.from_bytes(raw[-4:], "big", signed=True))
