"""The choice of the log files that a round of retention deletes. Pure; the rules are in `retention`."""

from collections.abc import Sequence
from sys import maxsize
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from firearrow.runtime.disk.door import Usage

HOUR_MS: Final = 3_600_000


class RetentionConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings for keeping and deleting log files."""

    file_reserved_time: Annotated[
        int, Meta(ge=0, description="Hours that a log file is kept after its last write.")
    ] = 72
    delete_when: Annotated[
        str,
        Meta(
            pattern=r"^([01]?[0-9]|2[0-3])(;([01]?[0-9]|2[0-3]))*$",
            description="Hours of the day, joined by ';', at which expired files are deleted.",
        ),
    ] = "04"
    disk_max_used_space_ratio: Annotated[
        int, Meta(ge=10, le=95, description="Percent of the disk above which expired files are deleted at any hour.")
    ] = 75
    disk_space_clean_forcibly_ratio: Annotated[
        int, Meta(ge=30, le=85, description="Percent of the disk above which unexpired files are deleted.")
    ] = 85
    disk_space_warning_level_ratio: Annotated[
        int, Meta(ge=35, le=90, description="Percent of the disk above which sends are refused.")
    ] = 90
    clean_file_forcibly_enable: Annotated[
        bool, Meta(description="Whether files that are not expired may be deleted at all.")
    ] = True
    delete_file_batch_max: Annotated[int, Meta(ge=1, le=10_000, description="Log files deleted in one round.")] = 10
    clean_resource_interval: Annotated[
        int, Meta(ge=100, le=3_600_000, description="Milliseconds between two rounds.")
    ] = 10_000

    @property
    def hours(self) -> frozenset[int]:
        """The hours of ``deleteWhen``."""
        return frozenset(int(hour) for hour in self.delete_when.split(";"))


class LogFile(NamedTuple):
    """A full file of the log, which may be deleted."""

    start: int
    size: int
    modified_ms: int


class Floors(NamedTuple):
    """The physical offsets up to which the lakes of topics have the log."""

    lacked: int
    """The offset of the first message that a lake lacks; from here on no file is deleted by age."""
    released: int
    """The offset below which lakes have every message, and their topics let go of messages before they expire."""
    topic: str = ""
    """The topic of the first message that a lake lacks; empty without one."""


NO_FLOORS: Final = Floors(maxsize, 0)
"""Without topics that are kept for a lake."""
ALL_HELD: Final = Floors(0, 0)
"""While it is not known which topics are kept for a lake."""


class DeletionPlan(NamedTuple):
    """The files that one round deletes, and whether sends are refused."""

    delete: list[LogFile]
    forced: int
    """The number of files to delete, the last ones, that are not expired or are kept for a lake."""
    refuse: bool
    """Whether sends are refused from now on."""
    is_held: bool = False
    """Whether an expired file stays because a lake lacks messages of it."""


def decide(
    config: RetentionConfig,
    files: Sequence[LogFile],
    usage: Usage,
    now_ms: int,
    hour: int,
    *,
    asked: bool = False,
    refusing: bool = False,
    floors: Floors = NO_FLOORS,
) -> DeletionPlan:
    """Return which of ``files`` (oldest first) to delete.

    ``asked``: delete expired files at any hour. ``floors``: the part of the log that lakes have.
    """
    percent = 100 * (usage.total - usage.free) / max(usage.total, 1)
    expired_before = now_ms - config.file_reserved_time * HOUR_MS
    is_due = asked or hour in config.hours or percent > config.disk_max_used_space_ratio
    delete: list[LogFile] = []
    is_held = False
    for file in files[: config.delete_file_batch_max]:
        end = file.start + file.size
        if end > floors.released:
            is_expired = is_due and file.modified_ms <= expired_before
            is_held = is_expired and end > floors.lacked
            if not is_expired or is_held:
                break
        delete.append(file)
    expired = len(delete)
    if percent > config.disk_space_clean_forcibly_ratio and config.clean_file_forcibly_enable:
        excess = usage.total - usage.free - usage.total * config.disk_space_clean_forcibly_ratio // 100
        for file in files[expired : config.delete_file_batch_max]:
            if sum(gone.size for gone in delete) >= excess:
                break
            delete.append(file)
    level = config.disk_space_clean_forcibly_ratio if refusing else config.disk_space_warning_level_ratio
    return DeletionPlan(delete, len(delete) - expired, percent > level, is_held)
