"""The settings of masters and slaves, under Apache's names. Java: ``MessageStoreConfig``, ``BrokerConfig``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from firearrow.access.rules import is_network
from firearrow.errors import SettingsError

Role = Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"]


class ReplicationConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The role of a broker in its group, and the copying of the log."""

    broker_role: Annotated[
        Role,
        Meta(
            description="ASYNC_MASTER answers a send without its slaves, SYNC_MASTER when slaves have the message; "
            "SLAVE copies a master and needs brokerId > 0."
        ),
    ] = "ASYNC_MASTER"
    ha_listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port at which slaves fetch the log; 0 is listenPort + 1.")
    ] = 0
    ha_allowed_addresses: Annotated[
        str,
        Meta(
            description="Addresses, or ranges such as 10.0.0.0/8, divided by commas, from which the log is fetched at "
            "haListenPort; all others are refused. Empty: every address with access off; with access on, peers with a "
            "checked certificate (tls.client_auth)."
        ),
    ] = ""
    ha_master_address: Annotated[
        str,
        Meta(
            description="Address of the master's haListenPort, for a slave; empty asks the name servers, where the "
            "master is registered under the same brokerName."
        ),
    ] = ""
    ha_send_heartbeat_interval: Annotated[
        int,
        Meta(ge=100, le=60_000, description="Milliseconds without data after which either side sends a sign of life."),
    ] = 5_000
    ha_housekeeping_interval: Annotated[
        int,
        Meta(ge=500, le=600_000, description="Milliseconds of silence after which either side ends the connection."),
    ] = 20_000
    ha_max_connections: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Connections at haListenPort; past it the oldest one that has not reported its log gives way; "
            "if all have, the new one is refused.",
        ),
    ] = 64
    ha_transfer_batch_size: Annotated[
        int, Meta(ge=1_024, le=2_097_152, description="Bytes of the log in one packet to a slave.")
    ] = 32_768
    ha_max_gap_not_in_sync: Annotated[
        int, Meta(ge=1, description="Bytes that a slave may be behind and still count as in sync.")
    ] = 268_435_456
    in_sync_replicas: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Replicas, the master included, that a SYNC_MASTER waits for; 1 waits for no slave. "
            "Apache's default is 1, ours is 2.",
        ),
    ] = 2
    min_in_sync_replicas: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Replicas, the master included, that must be in sync before a SYNC_MASTER takes a message; "
            "with fewer it refuses messages before it writes them.",
        ),
    ] = 1
    slave_read_enable: Annotated[
        bool,
        Meta(description="On a slave: serve pulls. On a master: send readers that are far behind to a slave."),
    ] = False

    @property
    def is_slave(self) -> bool:
        """Whether the broker copies a master."""
        return self.broker_role == "SLAVE"

    @property
    def allowed_addresses(self) -> tuple[str, ...]:
        """The members of ``haAllowedAddresses``."""
        return tuple(one.strip() for one in self.ha_allowed_addresses.split(",") if one.strip())

    @property
    def slaves_waited_for(self) -> int:
        """The number of slaves that must have a message before its send is answered."""
        return self.in_sync_replicas - 1 if self.broker_role == "SYNC_MASTER" else 0


def check_role(config: ReplicationConfig, broker_id: int) -> None:
    """Raise ``SettingsError`` unless role, id and numbers of replicas agree: a master has id 0, a slave another one."""
    if config.broker_role == "SYNC_MASTER" and config.min_in_sync_replicas > config.in_sync_replicas:
        raise SettingsError(
            f"minInSyncReplicas={config.min_in_sync_replicas} is over inSyncReplicas={config.in_sync_replicas}: a "
            "message would be refused without replicas that nobody waits for; raise inSyncReplicas"
        )
    for address in config.allowed_addresses:
        if not is_network(address):
            raise SettingsError(f"haAllowedAddresses: {address!r} is not an address or a range such as 10.0.0.0/8")
    if config.is_slave and broker_id == 0:
        raise SettingsError("brokerRole=SLAVE needs a brokerId of its own: set brokerId to 1 or more")
    if not config.is_slave and broker_id:
        raise SettingsError(
            f"brokerId={broker_id} belongs to a slave and brokerRole={config.broker_role} to a master: "
            "set brokerRole=SLAVE, or brokerId=0"
        )
