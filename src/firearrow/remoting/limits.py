"""The limits of one endpoint: on its peers' frames and connections, and on the bytes that it holds for them.

The defaults let in everything that Apache RocketMQ 5.5.0 lets in from a stock client (``NettyServerConfig``,
``NettySystemConfig``, ``NettyDecoder``). Where Apache has no limit at all, the default is far above what a stock client
needs and far below what a machine has. The deadlines that Apache does not have are off unless they are set.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on frames, memory, connections and idle time. Every refusal names its limit in the log."""

    max_frame_bytes: Annotated[
        int, Meta(ge=64, le=1024 * MIB, description="Longest frame; a longer one ends the connection.")
    ] = 16 * MIB
    max_header_bytes: Annotated[
        int, Meta(ge=64, le=16 * MIB, description="Longest header; a longer one ends the connection.")
    ] = 256 * KIB
    max_connections: Annotated[
        int, Meta(ge=1, description="Connections that a server holds open; further ones are closed as they arrive.")
    ] = 60_000
    max_connection_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Bytes of unanswered requests from one connection; at the limit it is not read any more.",
        ),
    ] = 64 * MIB
    max_in_flight_bytes: Annotated[
        int,
        Meta(ge=KIB, description="Bytes of unanswered requests from all connections; at the limit none is read."),
    ] = 512 * MIB
    max_partial_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Bytes of half-received frames on all connections; past it the oldest one is cut.",
        ),
    ] = 64 * MIB
    max_unsent_bytes: Annotated[
        int, Meta(ge=KIB, description="Bytes waiting to be read by one peer; past it the connection is cut.")
    ] = 256 * MIB
    max_all_unsent_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            description="Bytes of a server's answers waiting to be read by all peers, a partly sent answer counted "
            "whole; past it the peer that has read nothing for the longest is cut.",
        ),
    ] = 48 * MIB
    max_connection_answer_bytes: Annotated[
        int,
        Meta(ge=KIB, description="Bytes of answers being made for one connection; at the limit its requests wait."),
    ] = 8 * MIB
    max_answer_bytes: Annotated[
        int,
        Meta(ge=KIB, description="Bytes of answers being made for all connections; at the limit requests wait."),
    ] = 48 * MIB
    write_high_water_bytes: Annotated[
        int, Meta(ge=KIB, description="Unsent bytes at which a peer is no longer read, until a quarter is left.")
    ] = 1 * MIB
    max_calls: Annotated[
        int, Meta(ge=1, description="Calls in flight on one connection; a further call raises Overloaded.")
    ] = 65_536
    idle_s: Annotated[
        float, Meta(gt=0, description="Seconds without a byte in either direction after which a connection is closed.")
    ] = 120.0
    first_frame_s: Annotated[
        float, Meta(ge=0, description="Seconds within which a new connection must send a whole frame; 0: no limit.")
    ] = 0.0
    frame_s: Annotated[
        float, Meta(ge=0, description="Seconds within which a frame that began must be complete; 0: no limit.")
    ] = 0.0
    proxy_protocol: Annotated[
        bool,
        Meta(
            description=(
                "Trust the client address in a PROXY protocol preamble. Only for a port that nothing but the load "
                "balancer can reach; while this is off, a connection that opens with a preamble is closed."
            )
        ),
    ] = False
