"""The settings of the consuming side, under Apache's key names. Java: ``BrokerConfig``."""

from typing import Annotated

from msgspec import Meta, Struct


class ConsumingConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The interval at which offsets are written, and the group behaviour that is refused."""

    flush_consumer_offset_interval: Annotated[
        int, Meta(ge=100, le=600_000, description="Milliseconds between two writings of the consumer offsets.")
    ] = 5_000
    refuse_inconsistent_subscription: Annotated[
        bool,
        Meta(description="Refuse a consumer that subscribes to something else than the other members of its group."),
    ] = False
