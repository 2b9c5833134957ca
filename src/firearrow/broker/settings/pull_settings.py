"""The settings of pulls, under Apache's key names. Java: ``MessageStoreConfig``, ``BrokerConfig``."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from firearrow.expression.cel.message_view import MOST_BODY_BYTES
from firearrow.expression.cel.meter import STEPS

LARGE_PULL_BYTES: Final = 4 << 20
"""The most bytes in one answer, for consumers that ask for large answers."""
LARGE_PULL_MESSAGES: Final = 65_536
MAX_SUSPEND_MS: Final = 30_000
"""The longest wait of a parked pull, whatever it asks for; then it is answered without messages. Stock clients ask for
15 or 20 s, and take a broker that does not answer for 30 s for dead."""


class PullConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The limits on the answer to a pull, and on its wait."""

    max_transfer_count_on_message_in_memory: Annotated[
        int, Meta(ge=1, le=LARGE_PULL_MESSAGES, description="Messages in one answer at most, read from memory.")
    ] = 32
    max_transfer_bytes_on_message_in_memory: Annotated[
        int, Meta(ge=1, le=LARGE_PULL_BYTES, description="Bytes in one answer at most, read from memory.")
    ] = 262_144
    max_transfer_count_on_message_in_disk: Annotated[
        int, Meta(ge=1, le=LARGE_PULL_MESSAGES, description="Messages in one answer at most, read from disk.")
    ] = 8
    max_transfer_bytes_on_message_in_disk: Annotated[
        int, Meta(ge=1, le=LARGE_PULL_BYTES, description="Bytes in one answer at most, read from disk.")
    ] = 65_536
    max_transfer_bytes_beside_sends: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 30,
            description="Bytes handed out of backlogs in one turn of the loop while messages are sent to the broker, "
            "or twice what is sent if that is more; 0 sets no bound and serves pulls as they come.",
        ),
    ] = 98_304
    access_message_in_memory_max_ratio: Annotated[
        int, Meta(ge=0, le=100, description="Percent of the machine's memory within which messages count as in memory.")
    ] = 40
    long_polling_enable: Annotated[bool, Meta(description="Hold a pull for as long as it asks for.")] = True
    short_polling_time_mills: Annotated[
        int, Meta(ge=0, le=MAX_SUSPEND_MS, description="Milliseconds that a pull is held for without long polling.")
    ] = 1_000
    lite_pull_message_enable: Annotated[bool, Meta(description="Serve LITE_PULL_MESSAGE.")] = True
    enable_property_filter: Annotated[
        bool,
        Meta(
            description="Filter by SQL92 and CEL expressions for consumers that ask for it. Apache's default is false."
        ),
    ] = True
    max_filter_steps: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Steps that a CEL filter takes for a message at most.")
    ] = STEPS
    max_filter_micros_of_pull: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000_000,
            description="Microseconds of CPU for filters, in one pull and in one turn of the loop.",
        ),
    ] = 4_000
    max_filter_body_bytes: Annotated[
        int, Meta(ge=0, le=64 << 20, description="The largest body, after decompression, that a CEL filter reads.")
    ] = MOST_BODY_BYTES
    filter_support_retry: Annotated[
        bool,
        Meta(description="Judge the messages of a retry topic by the filter of the topic that they came from."),
    ] = False
