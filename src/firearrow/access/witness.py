"""Reports the guard's decisions to operators: in metrics, in the log (damped), and in the audit log.

Refusals have audit files of their own, and are damped there too.

No text that is told holds a body or a secret. Labels of metrics are reasons, never names of users: those come from
requests, and there is no end of them.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from firearrow.access.audit_lines import Event, shortened, shown
from firearrow.access.audit_log import REFUSED, AuditLog
from firearrow.access.denial import Denied, Reason
from firearrow.access.refusal_rate import RefusalRate
from firearrow.access.rules import USER_PREFIX, User
from firearrow.access.settings import AccessConfig, AuditScope
from firearrow.protocol.auth import ACCESS_KEY
from firearrow.protocol.conversation import Request
from firearrow.remoting.handlers import Call
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.telemetry.damped import DampedEvents
from firearrow.telemetry.metrics import Family

log = logging.getLogger(__name__)


class Witness:
    """Tells what was allowed and refused; ``audit`` and ``refused_audit`` are None when there is no audit log."""

    def __init__(self, audit: AuditLog | None, refused_audit: AuditLog | None = None) -> None:
        self.audit: Final = audit
        self.refused_audit: Final = refused_audit
        self._rate: RefusalRate | None = None
        self.refusals: Final = {reason: DampedEvents() for reason in Reason}

    async def open(self) -> None:
        """Find the ends of the audit files."""
        for audit in self._audits:
            await audit.open()

    async def run(self) -> None:
        """Write the audit files until cancelled."""
        async with asyncio.TaskGroup() as group:
            for audit in self._audits:
                group.create_task(audit.run())

    @property
    def _audits(self) -> list[AuditLog]:
        return [audit for audit in (self.audit, self.refused_audit) if audit is not None]

    def refused(self, request: Request[Any], call: Call, denial: Denied) -> None:
        """Tell of a request that was refused."""
        who, reason = _who(call, denial), denial.reason
        what, source = request.code.name, str(call.peer.address)
        things = () if denial.need is None else (str(denial.need),)
        why = denial.why if denial.rule is None else str(denial.rule)
        refusals, now = self.refusals[reason], asyncio.get_running_loop().time()
        number = refusals.count(now)
        if number:
            remark = shortened(denial.why)
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
        if self.refused_audit is None:
            return
        self._rate = self._rate or RefusalRate(now)
        if self._rate.passes(call.peer.address.host, reason.stage, now):
            self._add(self.refused_audit, who, call, request, things, why, allowed=False)
        else:
            self.refused_audit.damp()

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
        audits = self._audits
        if audits:
            for name, says, value in (
                ("lines", "Lines of the audit log", sum(audit.lines for audit in audits)),
                (
                    "lost",
                    "Events that are not in the audit log, because it could not be written",
                    sum(audit.lost for audit in audits),
                ),
                (
                    "damped",
                    "Refusals that the audit log counts instead of writing each",
                    sum(audit.damped for audit in audits),
                ),
            ):
                yield Family(f"firearrow_access_audit_{name}_total", "counter", says, [((), value)])


def witness_of(config: AccessConfig, disk: Disk, clock: Clock) -> Witness:
    """Return the witness that the settings ask for."""
    if config.audit_log is AuditScope.OFF:
        return Witness(None)
    return Witness(AuditLog(config, disk, clock), AuditLog(config, disk, clock, REFUSED))


def _who(call: Call, denial: Denied) -> str | None:
    """Return who has proved to ask or, with a question mark, the user that a request names."""
    if denial.user is not None:
        return denial.user.subject
    name = call.ext_fields.get(ACCESS_KEY)
    return USER_PREFIX + shortened(name) + "?" if name else None
