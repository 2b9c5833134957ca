"""The settings of the commit log, under Apache's names where Apache has the setting.

Java: ``MessageStoreConfig``. Settings of retention, queues and index are in the modules that use them.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

DEFAULT_SEGMENT_BYTES: Final = 1 << 30
SMALLEST_SEGMENT_BYTES: Final = 4096

FlushMode = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]


class LogConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The commit log and how it is flushed to the device."""

    mapped_file_size_commit_log: Annotated[
        int,
        Meta(
            ge=0,
            le=(1 << 31) - 1,
            description="Bytes of one commit log file; 0 keeps the size of existing files, else 1 GiB.",
        ),
    ] = 0
    flush_disk_type: Annotated[
        FlushMode, Meta(description="SYNC_FLUSH answers a send after its sync, ASYNC_FLUSH after its write.")
    ] = "ASYNC_FLUSH"
    flush_interval_commit_log: Annotated[
        int, Meta(ge=10, le=60_000, description="Milliseconds between two syncs under ASYNC_FLUSH.")
    ] = 500
    flush_commit_log_least_pages: Annotated[
        int, Meta(ge=0, le=4096, description="Pages of 4 KiB that must be unsynced for an interval sync to happen.")
    ] = 4
    flush_commit_log_thorough_interval: Annotated[
        int, Meta(ge=10, le=600_000, description="Milliseconds after which a sync happens with fewer pages too.")
    ] = 10_000
    max_message_size: Annotated[int, Meta(ge=1, le=1 << 30, description="Bytes of the largest body.")] = 4_194_304
    zero_fill_ahead: Annotated[
        bool,
        Meta(
            description="Under SYNC_FLUSH fill the next file with zeros before it is needed, so that syncs are short."
        ),
    ] = True
    max_pending_bytes: Annotated[
        int, Meta(ge=4096, le=1 << 28, description="Bytes of appends that may wait in memory before they are written.")
    ] = 1 << 20
    verify_window_bytes: Annotated[
        int, Meta(ge=0, description="Bytes before the flushed end of the log that every start checks again.")
    ] = 64 << 20

    @property
    def syncs_first(self) -> bool:
        """Whether a send is answered, and dispatched, after its sync."""
        return self.flush_disk_type == "SYNC_FLUSH"
