"""What a producer can be told, with RocketMQ's defaults. Java: ``DefaultMQProducer``, ``ClientConfig``.

``ProducerOptions`` is the same for keyword arguments: ``Producer("127.0.0.1:9876", group="g", retries=5)``. A
test keeps the two equal.
"""

from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta, Struct

from firearrow.client.access import Access, check_ip, check_names, unusable, without_secrets
from firearrow.errors import SettingsError
from firearrow.model.names import AUTO_CREATE_TOPIC, DEFAULT_PRODUCER_GROUP, group_fault
from firearrow.record.compression import DEFAULT_LEVEL, Codec
from firearrow.runtime.tlssettings import ClientTls


class ProducerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The knobs of a producer."""

    group: Annotated[str, Meta(description="Producer group.")] = DEFAULT_PRODUCER_GROUP
    instance_name: Annotated[str, Meta(description="Last part of the client id; empty: unique.")] = ""
    client_ip: Annotated[str, Meta(description="Address in client ids and unique keys; empty: this machine's.")] = ""
    unit_name: Annotated[str, Meta(description="Added to the client id.")] = ""
    send_timeout_ms: Annotated[int, Meta(ge=1, description="For one send, its retries included.")] = 3000
    attempt_timeout_ms: Annotated[int, Meta(ge=0, description="For one attempt of a send; 0: what is left.")] = 0
    retries: Annotated[int, Meta(ge=0, description="More attempts after the first failed, on other brokers.")] = 2
    retry_not_ok: Annotated[
        bool, Meta(description="Send again, elsewhere, what was stored with a weaker promise than OK.")
    ] = False
    compress_over_bytes: Annotated[int, Meta(ge=0, description="Larger bodies are compressed.")] = 4096
    compress_level: Annotated[int, Meta(ge=0, le=9, description="How hard to compress.")] = DEFAULT_LEVEL
    compress_codec: Annotated[Codec, Meta(description="How to compress: ZLIB, LZ4 or ZSTD.")] = Codec.ZLIB
    max_message_bytes: Annotated[int, Meta(ge=1, description="Largest body, of a message or a batch.")] = (
        4 * 1024 * 1024
    )
    max_sends: Annotated[int, Meta(ge=0, description="Sends under way at once, the next ones wait; 0: no limit.")] = 0
    linger_ms: Annotated[float, Meta(ge=0, description="How long a send waits for others to travel with; 0: not.")] = 0
    default_topic: Annotated[
        str, Meta(description="Whose brokers get the first message of a topic that does not exist.")
    ] = AUTO_CREATE_TOPIC
    default_topic_queues: Annotated[int, Meta(ge=1, description="Queues of such a topic.")] = 4
    latency_fault_tolerance: Annotated[bool, Meta(description="Avoid brokers that were slow or failed lately.")] = False
    poll_name_server_ms: Annotated[int, Meta(ge=10, description="How often routes are asked for.")] = 30_000
    fetch_name_server_ms: Annotated[
        int, Meta(ge=10, description="How often name servers are looked up, where an http:// address is given.")
    ] = 120_000
    heartbeat_ms: Annotated[int, Meta(ge=10, description="How often brokers hear of this client.")] = 30_000
    request_timeout_ms: Annotated[int, Meta(ge=1, description="For questions about routes, offsets and members.")] = (
        3000
    )
    wait_ready_ms: Annotated[
        int, Meta(ge=0, description="How long opening waits for a name server to answer, then fails; 0: not.")
    ] = 0
    tls: Annotated[ClientTls, Meta(description="TLS towards name servers and brokers.")] = ClientTls()
    access_key: Annotated[str, Meta(description="Account under which requests are signed; empty: not signed.")] = ""
    secret_key: Annotated[str, Meta(description="The account's secret.")] = ""
    security_token: Annotated[str, Meta(description="A token that goes with temporary keys.")] = ""

    def __repr__(self) -> str:
        return without_secrets(self)

    @property
    def access(self) -> Access:
        """What servers are shown."""
        return Access(self.tls, self.access_key, self.secret_key, self.security_token)


class ProducerOptions(TypedDict, total=False):
    """The knobs of a producer as keyword arguments, other than its group."""

    instance_name: str
    client_ip: str
    unit_name: str
    send_timeout_ms: int
    attempt_timeout_ms: int
    retries: int
    retry_not_ok: bool
    compress_over_bytes: int
    compress_level: int
    compress_codec: Codec
    max_message_bytes: int
    max_sends: int
    linger_ms: float
    default_topic: str
    default_topic_queues: int
    latency_fault_tolerance: bool
    poll_name_server_ms: int
    fetch_name_server_ms: int
    heartbeat_ms: int
    request_timeout_ms: int
    wait_ready_ms: int
    tls: ClientTls
    access_key: str
    secret_key: str
    security_token: str


def producer_settings(group: str, options: ProducerOptions) -> ProducerSettings:
    """Check and collect what was given."""
    fault = group_fault(group)
    if fault:
        raise SettingsError(fault)
    given: dict[str, Any] = {"group": group, **options}
    check_names(given, ProducerSettings)
    try:
        settings = msgspec.convert(given, ProducerSettings)
    except msgspec.ValidationError as wrong:
        raise unusable(given, wrong) from wrong
    settings.access.check()
    check_ip(settings.client_ip)
    return settings
