"""Load shedding of sends: they are refused unread while this turn of the loop has no time for them (`Admission`)."""

from firearrow.broker.send.admission import Admission
from firearrow.broker.send.replies import SendReplies
from firearrow.protocol.refusal import Refused
from firearrow.protocol.sends import SEND_BEGINNINGS, SEND_CODES
from firearrow.protocol.shedding import Refusals


class SendShedding:
    """The shedding policy for sends."""

    beginnings = SEND_BEGINNINGS

    def __init__(self, admission: Admission, replies: SendReplies) -> None:
        self._admission = admission
        self._replies = replies
        self._reason: Refused | None = None
        self._refusals: Refusals | None = None

    @property
    def rest_s(self) -> float:
        """The time that a connection rests after its sends were refused unread."""
        return self._admission.limit_s

    @property
    def pace_s(self) -> float:
        """The pause of a connection whose sends are taken while the broker refuses other sends; 0: no pause."""
        return self._admission.pace_s

    def refusals(self, *, has_rested: bool) -> Refusals | None:
        """Return the refusal of unread sends; None: read them. Sends that waited for a rest are late earlier."""
        if not (self._admission.is_shut() or (has_rested and self._admission.is_behind())):
            return None
        reason = self._admission.refusal
        if reason is not self._reason:
            self._reason = reason
            self._refusals = Refusals(SEND_CODES, self._replies.marks.on_answers, int(reason.code), reason.remark)
        return self._refusals

    def refused(self, count: int) -> None:
        """Count sends that were refused unread."""
        self._admission.refused_some(count)
