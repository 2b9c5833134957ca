"""The identity of a broker: its name and the address that its clients use."""

from msgspec import Struct

from firearrow.model import Host
from firearrow.record.hosts import HostBytes, host_bytes


class Identity(Struct, frozen=True):
    """The name of a broker and the address that its clients use, as its records hold it."""

    name: str
    cluster: str
    ip: str
    """A numeric address: records hold no host names."""
    port: int

    @property
    def address(self) -> str:
        """The address at which clients reach the broker."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port}"

    @property
    def ha_address(self) -> str:
        """The address at which slaves would reach the broker: the next port."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port + 1}"

    @property
    def store_host(self) -> HostBytes:
        """The address as records hold it."""
        return host_bytes(Host(self.ip, self.port))
