"""Who a broker is: its name and the address that its clients use."""

from msgspec import Struct

from firearrow.model import Address as Host
from firearrow.record.hosts import HostBytes, host_bytes


class Identity(Struct, frozen=True):
    """The name of a broker and the address that its clients use, as its records hold it."""

    name: str
    cluster: str
    ip: str
    """In numbers: records hold no names."""
    port: int

    @property
    def address(self) -> str:
        """Where clients reach the broker."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port}"

    @property
    def ha_address(self) -> str:
        """Where slaves would reach it: the next port."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port + 1}"

    @property
    def store_host(self) -> HostBytes:
        """The address as records hold it."""
        return host_bytes(Host(self.ip, self.port))
