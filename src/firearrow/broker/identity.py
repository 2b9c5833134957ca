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
    ha_ip: str = ""
    """The address that slaves use; empty is ``ip``."""
    ha_listen_port: int = 0
    """The port that slaves use; 0 is the port after ``port``."""

    @property
    def address(self) -> str:
        """The address at which clients reach the broker."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{host}:{self.port}"

    @property
    def ha_address(self) -> str:
        """The address at which slaves reach the broker."""
        ip = self.ha_ip or self.ip
        host = f"[{ip}]" if ":" in ip else ip
        return f"{host}:{self.ha_port}"

    @property
    def ha_port(self) -> int:
        """The port at which slaves fetch the log."""
        return self.ha_listen_port or self.port + 1

    @property
    def store_host(self) -> HostBytes:
        """The address as records hold it."""
        return host_bytes(Host(self.ip, self.port))
