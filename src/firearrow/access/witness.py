"""What the guard decided, told to operators: refusals in metrics and, damped, in the log; events in the audit log.

No text that is told holds a body or a secret. Labels of metrics are reasons, never names of users: those come from
requests, and there is no end of them.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from firearrow.access.audit_lines import Event, shortened, shown
from firearrow.access.audit_log import AuditLog
from firearrow.access.denial import Denied, Reason
from firearrow.access.rules import USER_PREFIX, User
from firearrow.access.settings import AccessConfig, AuditScope
from firearrow.protocol.auth import ACCESS_KEY
from firearrow.protocol.conversation import Request
from firearrow.remoting.handlers import Call
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.telemetry.damped import Damped
from firearrow.telemetry.metrics import Family

log = logging.getLogger(__name__)


class Witness:
    """Tells what was allowed and refused; ``audit`` is None when there is no audit log."""

    def __init__(self, audit: AuditLog | None) -> None:
        self.audit: Final = audit
        self.refusals: Final = {reason: Damped() for reason in Reason}

    def refused(self, request: Request[Any], call: Call, denial: Denied) -> None:
        """Tell of a request that was refused."""
        who, reason = _who(call, denial), denial.reason
        what, source = request.code.name, str(call.peer.address)
        things = () if denial.need is None else (str(denial.need),)
        why = denial.remark if denial.rule is None else str(denial.rule)
        refusals = self.refusals[reason]
        number = refusals.count(asyncio.get_running_loop().time())
        if number:
            remark = shortened(denial.remark)
            extra = {
                "user": who,
                "peer": source,
                "request": what,
                "resources": shown(things),
                "reason": reason.value,
                "rule": None if denial.rule is None else str(denial.rule),
                "refused": number,
                "total": refusals.total,
            }
            rule = "" if denial.rule is None else f" The rule: {denial.rule}"
            log.warning("%s by %s from %s refused: %s%s", what, who or "nobody", source, remark, rule, extra=extra)
        if self.audit is not None:
            self._add(self.audit, who, call, request, things, why, allowed=False)

    def allowed(self, request: Request[Any], call: Call, user: User | None, things: Sequence[str], why: str) -> None:
        """Tell the audit log of a request that reaches its handler."""
        if self.audit is not None:
            who = None if user is None else user.subject
            self._add(self.audit, who, call, request, things, why, allowed=True)

    def _add(
        self,
        audit: AuditLog,
        who: str | None,
        call: Call,
        request: Request[Any],
        things: Sequence[str],
        why: str,
        *,
        allowed: bool,
    ) -> None:
        audit.add(
            Event(
                time_ms=audit.clock.now_ms(),
                who=who,
                source=str(call.peer.address),
                what=request.code.name,
                things=shown(things),
                allowed=allowed,
                why=shortened(why),
            )
        )

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        samples = [
            ((("stage", reason.stage), ("reason", reason.value)), float(damped.total))
            for reason, damped in self.refusals.items()
        ]
        says = "Requests refused because nobody known asked, or because rules do not allow them"
        yield Family("firearrow_access_refused_total", "counter", says, samples)
        if self.audit is not None:
            for name, says, value in (
                ("lines", "Lines of the audit log", self.audit.lines),
                ("lost", "Events that are not in the audit log, because it could not be written", self.audit.lost),
            ):
                yield Family(f"firearrow_access_audit_{name}_total", "counter", says, [((), value)])


def witness_of(config: AccessConfig, disk: Disk, clock: Clock) -> Witness:
    """Return the witness that the settings ask for."""
    return Witness(None if config.audit_log is AuditScope.OFF else AuditLog(config, disk, clock))


def _who(call: Call, denial: Denied) -> str | None:
    """Return who has proved to ask or, with a question mark, the user that a request names."""
    if denial.user is not None:
        return denial.user.subject
    name = call.ext_fields.get(ACCESS_KEY)
    return USER_PREFIX + shortened(name) + "?" if name else None
