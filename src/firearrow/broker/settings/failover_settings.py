"""The settings of a broker whose group has a coordinator."""

from typing import Annotated

from msgspec import Meta, Struct

from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.errors import SettingsError
from firearrow.model.group_state import LARGEST_REPLICA
from firearrow.runtime.coordinator.etcd import endpoints_of
from firearrow.runtime.tls_settings import ClientTls


class FailoverConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The address of the group's coordinator, and the times that members wait for one another."""

    coordinator_address: Annotated[
        str,
        Meta(
            description="Machines of etcd, as http://host:port or https://host:port, divided by semicolons. The group "
            "then elects its master: brokerRole is not read, and brokerId, 1 or more, is the broker's own for good."
        ),
    ] = ""
    coordinator_trust_path: Annotated[
        str,
        Meta(description="PEM file of the authorities that check etcd's certificates; empty: the system's."),
    ] = ""
    coordinator_certificate_path: Annotated[
        str, Meta(description="PEM file of the broker's certificate chain, if etcd asks for it (--client-cert-auth).")
    ] = ""
    coordinator_key_path: Annotated[str, Meta(description="PEM file of the private key of that certificate.")] = ""
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

    @property
    def tls(self) -> ClientTls | None:
        """The TLS settings for connections to etcd; None for plain connections."""
        if not any(one.startswith("https://") for one in endpoints_of(self.coordinator_address)):
            return None
        return ClientTls(
            enabled=True,
            verify_server=True,
            trust_path=self.coordinator_trust_path,
            certificate_path=self.coordinator_certificate_path,
            key_path=self.coordinator_key_path,
        )


def check_replica(config: FailoverConfig, broker_id: int) -> None:
    """Raise ``SettingsError`` unless a broker that starts as a member of a group has a brokerId of its own."""
    if not 0 < broker_id <= LARGEST_REPLICA:
        raise SettingsError(
            f"coordinatorAddress={config.coordinator_address} needs a brokerId of the broker's own: set brokerId to 1 "
            f"or more, at most {LARGEST_REPLICA}, another one on every broker of the group"
        )


def check_member(config: FailoverConfig, replication: ReplicationConfig) -> None:
    """Raise ``SettingsError`` unless a broker can be a member of a group with a coordinator."""
    given = (config.coordinator_trust_path, config.coordinator_certificate_path, config.coordinator_key_path)
    plain = [one for one in endpoints_of(config.coordinator_address) if one.startswith("http://")]
    if any(given) and plain:
        raise SettingsError(
            f"coordinatorAddress names {plain[0]}, where nothing is encrypted, beside files for TLS: write https:// "
            "for every machine of etcd, or remove the files"
        )
    if bool(config.coordinator_certificate_path) != bool(config.coordinator_key_path):
        raise SettingsError("coordinatorCertificatePath and coordinatorKeyPath belong together: set both or neither")
    if replication.ha_master_address:
        raise SettingsError(
            f"haMasterAddress={replication.ha_master_address} cannot be honoured beside coordinatorAddress: the group "
            "elects its master. Remove one of them"
        )
    if replication.slave_read_enable:
        raise SettingsError(
            "slaveReadEnable=true cannot be honoured beside coordinatorAddress: a slave does not know which messages "
            "are confirmed. Remove it"
        )
