"""The settings of row windows. They are ours: Apache's broker has no such windows."""

from typing import Annotated

from msgspec import Meta, Struct


class DedupConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bounds within which a queue remembers the identities of its rows (property FIREARROW_ROW_ID)."""

    dedup_window_count: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000_000,
            description="Messages at the end of a queue among which a row with the same identity is not stored again. "
            "0 stores every row.",
        ),
    ] = 100_000
    dedup_window_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            le=30 * 86_400_000,
            description="Milliseconds after which a row with the same identity is stored again.",
        ),
    ] = 86_400_000
    dedup_max_identities: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000,
            description="Identities that the broker remembers for all queues together, about 200 bytes each; the "
            "oldest are forgotten first.",
        ),
    ] = 1_000_000
