"""Refusals of the guard: their reasons, by which they are counted, and the error. Pure."""

from enum import StrEnum
from typing import Final

from firearrow.access.decide import AccessVerdict, Need, refusal_text
from firearrow.access.rules import Rule, User
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused


class Reason(StrEnum):
    """The reason why a request is refused. The first six are failures to prove who asks."""

    NO_USER = "no_user"
    UNKNOWN_USER = "unknown_user"
    DISABLED_USER = "disabled_user"
    WRONG_SIGNATURE = "wrong_signature"
    STALE_SIGNATURE = "stale_signature"
    REPLAYABLE_SIGNATURE = "replayable_signature"
    NO_RULE = "no_rule"
    RULE = "rule"
    UNDECLARED = "undeclared"
    NOT_SUPER = "not_super"

    @property
    def stage(self) -> str:
        """The check that failed: authentication or authorization."""
        return AUTHENTICATION if self in _UNPROVED else "authorization"


AUTHENTICATION: Final = "authentication"
_UNPROVED: Final = (
    Reason.NO_USER,
    Reason.UNKNOWN_USER,
    Reason.DISABLED_USER,
    Reason.WRONG_SIGNATURE,
    Reason.STALE_SIGNATURE,
    Reason.REPLAYABLE_SIGNATURE,
)


class Denied(Refused):
    """A request is refused for who asks."""

    def __init__(
        self,
        reason: Reason,
        remark: str,
        need: Need | None = None,
        rule: Rule | None = None,
        code: int = ResponseCode.NO_PERMISSION,
        user: User | None = None,
        why: str = "",
    ) -> None:
        super().__init__(code, remark)
        self.why = why or remark
        """The reason for the operator: a client that is not authenticated is not told which users exist."""
        self.user = user
        """The authenticated user; None without one."""
        self.reason = reason
        self.need = need
        """The action and thing that the rules were asked about."""
        self.rule = rule
        """The rule that denies it."""


def denied_by_rules(user: User, need: Need, source: str, verdict: AccessVerdict) -> Denied:
    """Return the refusal of something that the rules of a user do not allow."""
    reason = Reason.NO_RULE if verdict.rule is None else Reason.RULE
    return Denied(reason, refusal_text(user, need, source, verdict), need, verdict.rule, user=user)
