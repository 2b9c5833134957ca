"""The offsets of connected slaves, by which a SYNC_MASTER without a coordinator answers.

An answer waits for the slaves that ``inSyncReplicas`` asks for, and for none when too few of them are near. Messages
are refused before they are written while fewer than ``minInSyncReplicas`` replicas are in sync. Consumers see what is
confirmed by as many replicas as are in sync, up to ``inSyncReplicas`` and no fewer than ``minInSyncReplicas``: without
slaves they go on reading what the master has, unless settings ask for more. All of it is looked at when a slave
reports, comes or leaves, and every tenth of a second. Java: ``CommitLog.asyncPutMessage``; there consumers see all.
"""

from collections.abc import Callable

from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.replication.decisions import confirmed, in_sync
from firearrow.broker.settings.live import LiveSettings
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


class NearSlaves:
    """Tells the line of a SYNC_MASTER's answers what its slaves have."""

    def __init__(
        self,
        acked: Callable[[], list[int]],
        end: Callable[[], int],
        settings: LiveSettings,
        show: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``show`` lets consumers see what lies below an offset, and nothing else."""
        self._show = show
        self._acked = acked
        self._end = end
        self._settings = settings
        self.line = Confirmation(lambda: settings.broker.sync_flush_timeout, self._is_near)

    def _is_near(self, end: int) -> bool:
        config = self._settings.value.replication
        return in_sync(self._acked(), end, config.ha_max_gap_not_in_sync) >= config.in_sync_replicas

    def look(self) -> None:
        """Look what is confirmed now, and whether enough replicas are in sync to take messages."""
        config, acked = self._settings.value.replication, self._acked()
        self.line.confirm(confirmed(acked, config.in_sync_replicas))
        found, least = in_sync(acked, self._end(), config.ha_max_gap_not_in_sync), config.min_in_sync_replicas
        self._show(confirmed(acked, max(min(found, config.in_sync_replicas), least)))
        self.line.refusal = None
        if found < least:
            remark = (
                f"in-sync replicas not enough: {found} of the {least} that minInSyncReplicas asks for, the master "
                "included; start the slaves, or send to another broker"
            )
            self.line.refusal = Refused(ResponseCode.SYSTEM_ERROR, remark)
