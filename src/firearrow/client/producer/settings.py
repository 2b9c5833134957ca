"""The settings of a producer, with RocketMQ's defaults. Java: ``DefaultMQProducer``, ``ClientConfig``.

``ProducerOptions`` is the same for keyword arguments: ``Producer("127.0.0.1:9876", group="g", retries=5)``. A
test keeps the two equal.
"""

from typing import Annotated

from msgspec import Meta

from firearrow.client.settings import ClientOptions, ClientSettings, checked
from firearrow.model.names import AUTO_CREATE_TOPIC, DEFAULT_PRODUCER_GROUP
from firearrow.record.compression import DEFAULT_LEVEL, Codec


class ProducerSettings(ClientSettings, frozen=True):
    """The settings of a producer."""

    group: Annotated[str, Meta(description="Producer group.")] = DEFAULT_PRODUCER_GROUP
    send_timeout_ms: Annotated[int, Meta(ge=1, description="Timeout of a send, retries included.")] = 3000
    attempt_timeout_ms: Annotated[
        int, Meta(ge=0, description="Timeout of one attempt of a send; 0: the rest of the send's timeout.")
    ] = 0
    retries: Annotated[int, Meta(ge=0, description="Attempts after the first, on other brokers.")] = 2
    retry_not_ok: Annotated[
        bool, Meta(description="Send a message again to another broker if its status is not OK.")
    ] = False
    compress_over_bytes: Annotated[int, Meta(ge=0, description="Bodies larger than this are compressed.")] = 4096
    compress_level: Annotated[int, Meta(ge=0, le=9, description="Compression level.")] = DEFAULT_LEVEL
    compress_codec: Annotated[Codec, Meta(description="Compression: ZLIB, LZ4 or ZSTD.")] = Codec.ZLIB
    max_message_bytes: Annotated[int, Meta(ge=1, description="Largest body of a message or a batch.")] = 4 * 1024 * 1024
    max_sends: Annotated[
        int, Meta(ge=0, description="Most requests with messages in flight, further ones wait; 0: no limit.")
    ] = 0
    linger_ms: Annotated[
        float, Meta(ge=0, description="How long a send waits to share a batch with others; 0: not at all.")
    ] = 0
    default_topic: Annotated[
        str, Meta(description="Topic whose brokers get the first message of a topic that does not exist.")
    ] = AUTO_CREATE_TOPIC
    default_topic_queues: Annotated[int, Meta(ge=1, description="Queues of a topic created that way.")] = 4
    latency_fault_tolerance: Annotated[bool, Meta(description="Avoid brokers that were slow or have failed.")] = False
    wait_ready_ms: Annotated[
        int, Meta(ge=0, description="How long opening waits for a name server to answer, then fails; 0: not.")
    ] = 0


class ProducerOptions(ClientOptions, total=False):
    """The settings of a producer as keyword arguments, without its group."""

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
    wait_ready_ms: int


def producer_settings(group: str, options: ProducerOptions) -> ProducerSettings:
    """Check the given options and return the settings."""
    return checked(ProducerSettings, group, options)
