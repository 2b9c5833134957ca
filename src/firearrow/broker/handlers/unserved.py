"""What is not offered yet, refused in the words with which Apache refuses it when it is switched off.

Whatever stands neither here nor in another module of this package is refused as a code that nobody serves.
"""

from typing import NoReturn

import msgspec

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Fields
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.pop import PopMessage
from firearrow.protocol.requests.send import RecallMessage
from firearrow.remoting.handlers import Answer, Call, Handlers


class _Region(Fields, frozen=True, kw_only=True, gc=False):
    """What every answer to a recall carries."""

    msg_region: str = msgspec.field(name="MSG_REGION")


class UnservedHandlers:
    """Refusals."""

    def __init__(self, broker_ip: str, region: str) -> None:
        self._broker_ip = broker_ip
        self._region = region

    def add_to(self, handlers: Handlers) -> None:
        """Register every answer given here."""
        handlers.on(RecallMessage, self.recall)
        handlers.on(PopMessage, self.pop)

    def recall(self, _request: RecallMessage, _call: Call) -> Answer:
        """As without ``recallMessageEnable``."""
        fields = _Region(msg_region=self._region)
        return Answer(fields, code=int(ResponseCode.NO_PERMISSION), remark="recall failed, operation is forbidden")

    def pop(self, _request: PopMessage, _call: Call) -> NoReturn:
        """As without ``timerWheelEnable``."""
        remark = f"the broker[{self._broker_ip}] pop message is forbidden because timerWheelEnable is false"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
