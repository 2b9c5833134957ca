"""Warns when the disk of the store fills up, before sends are refused: once whenever the usage crosses a level.

The levels are those of the store's settings: at the first, expired log files are deleted at any hour; at the second,
files that are not expired are deleted too; at the third, sends are refused.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from firearrow.runtime.disk.door import Disk, Usage
from firearrow.store.deletion import RetentionConfig

LOOK_EVERY_S: Final = 10.0
_GIB: Final = 1 << 30

log = logging.getLogger(__name__)


class DiskWatch:
    """Watches the disk usage of a path."""

    def __init__(self, disk: Disk, path: str, config: Callable[[], RetentionConfig]) -> None:
        self._disk = disk
        self._path = path
        self._config = config
        self._passed = 0

    async def run(self) -> None:
        """Check the usage periodically until cancelled."""
        while True:
            self.look(self._disk.usage())
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self, usage: Usage) -> None:
        """Log a warning when the usage has passed a level since the last check."""
        used = 100 * (usage.total - usage.free) / max(usage.total, 1)
        levels = self._levels()
        passed = sum(used > level for level, _ in levels)
        if passed == self._passed:
            return
        level, what = levels[max(passed, self._passed) - 1]
        extra = {"path": self._path, "used_percent": round(used), "free_bytes": usage.free, "total_bytes": usage.total}
        log.warning(
            "the disk of %s is %.0f %% full, %.1f GiB of %.1f GiB free: %s %d %%%s",
            self._path,
            used,
            usage.free / _GIB,
            usage.total / _GIB,
            "above" if passed > self._passed else "back below",
            level,
            f", {what}" if passed > self._passed else "",
            extra=extra,
        )
        self._passed = passed

    def _levels(self) -> list[tuple[int, str]]:
        config = self._config()
        forced = "files that are not expired are deleted too" if config.clean_file_forcibly_enable else "make room"
        return [
            (config.disk_max_used_space_ratio, "expired log files are deleted at any hour"),
            (config.disk_space_clean_forcibly_ratio, forced),
            (config.disk_space_warning_level_ratio, "sends are refused"),
        ]
