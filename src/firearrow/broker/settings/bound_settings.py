"""Bounds on what clients make a broker remember. Apache's broker has none; its clients stay far below the defaults."""

from typing import Annotated

from msgspec import Meta, Struct

KIB = 1024
MIB = 1024 * KIB


class BoundsConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bounds on topics, groups, members, offsets and locks that clients make by using them."""

    max_auto_created_topics: Annotated[
        int,
        Meta(
            ge=0,
            description="With so many topics none is made by its first message any more; an operator can make others.",
        ),
    ] = 20_000
    max_auto_created_groups: Annotated[
        int,
        Meta(
            ge=0,
            description="With so many consumer groups none is made by its first use any more; an operator can make "
            "further ones.",
        ),
    ] = 20_000
    max_new_names_of_connection: Annotated[
        int,
        Meta(ge=1, description="Topics and groups that one connection may make by using them within a minute."),
    ] = 1_000
    max_new_names: Annotated[
        int,
        Meta(
            ge=1,
            description="The same of all connections; the last fifth is kept for connections that have made few.",
        ),
    ] = 5_000
    max_groups_of_connection: Annotated[
        int, Meta(ge=1, description="Producer and consumer groups that the clients of one connection may belong to.")
    ] = 1_000
    max_subscription_bytes_of_connection: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Memory for the groups and subscriptions of one connection; past it heartbeats are refused.",
        ),
    ] = 4 * MIB
    max_subscription_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="The same for all connections; past it only connections with up to 8 KiB of it are taken.",
        ),
    ] = 256 * MIB
    max_consumer_offsets: Annotated[
        int,
        Meta(
            ge=1,
            description="Offsets of groups in queues that the broker keeps; past it known ones move, none is added.",
        ),
    ] = 1_000_000
    max_queue_locks: Annotated[
        int, Meta(ge=1, description="Queues that consumers in order may hold; past it no other is locked.")
    ] = 200_000
