"""Refuses features that are not offered yet, with the text of an Apache broker that has the feature switched off.

A request code without a handler in this module or another module of this package is refused as unsupported.
"""

from typing import NoReturn

import msgspec

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.send import RecallMessage
from firearrow.protocol.requests.pop.pop import PopMessage
from firearrow.remoting.handlers import Answer, Call, Handlers


class _Region(Fields, frozen=True, kw_only=True, gc=False):
    """The fields of every answer to a recall."""

    msg_region: str = msgspec.field(name="MSG_REGION")


class UnservedHandlers:
    """Refuses recalls and pops."""

    def __init__(self, broker_ip: str, region: str) -> None:
        self._broker_ip = broker_ip
        self._region = region

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(RecallMessage, self.recall)
        handlers.on(PopMessage, self.pop)

    def recall(self, _request: RecallMessage, _call: Call) -> Answer:
        """Refuse a recall as Apache does without ``recallMessageEnable``."""
        fields = _Region(msg_region=self._region)
        return Answer(fields, code=int(ResponseCode.NO_PERMISSION), remark="recall failed, operation is forbidden")

    def pop(self, _request: PopMessage, _call: Call) -> NoReturn:
        """Refuse a pop as Apache does without ``timerWheelEnable``."""
        remark = f"the broker[{self._broker_ip}] pop message is forbidden because timerWheelEnable is false"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
