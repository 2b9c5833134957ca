"""The settings of a broker whose group has a coordinator."""

from typing import Annotated

from msgspec import Meta, Struct

from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.errors import SettingsError


class FailoverConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the group's coordinator is, and how long its members wait for one another."""

    coordinator_address: Annotated[
        str,
        Meta(
            description="Machines of etcd, as http://host:port divided by semicolons. The group then elects its "
            "master: brokerRole is not read, and brokerId, 1 or more, is the broker's own for good."
        ),
    ] = ""
    coordinator_lease_seconds: Annotated[
        int, Meta(ge=2, le=60, description="Seconds without a sign of life after which a master is replaced.")
    ] = 3
    ha_max_time_slave_not_catchup: Annotated[
        int,
        Meta(
            ge=500,
            le=600_000,
            description="Milliseconds for which a slave may lack the newest messages before it leaves the in-sync set.",
        ),
    ] = 15_000


def check_member(config: FailoverConfig, replication: ReplicationConfig, broker_id: int) -> None:
    """Raise ``SettingsError`` unless a broker can be a member of a group with a coordinator."""
    if broker_id == 0:
        raise SettingsError(
            f"coordinatorAddress={config.coordinator_address} needs a brokerId of the broker's own: set brokerId to 1 "
            "or more, another one on every broker of the group"
        )
    if replication.slave_read_enable:
        raise SettingsError(
            "slaveReadEnable=true cannot be honoured beside coordinatorAddress: a slave does not know which messages "
            "are confirmed. Remove it"
        )
