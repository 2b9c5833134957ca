"""Refuses features that are not offered yet, with the text of an Apache broker that has the feature switched off.

A request code without a handler in this module or another module of this package is refused as unsupported.
"""

from typing import NoReturn

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.pop.pop import PopMessage
from firearrow.remoting.handlers import Call, Handlers


class UnservedHandlers:
    """Refuses pops."""

    def __init__(self, broker_ip: str, *, timers: bool) -> None:
        self._broker_ip = broker_ip
        self._reason = "pop is not offered yet" if timers else "timerWheelEnable is false"

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers of this class."""
        handlers.on(PopMessage, self.pop)

    def pop(self, _request: PopMessage, _call: Call) -> NoReturn:
        """Refuse a pop with the code that Apache uses without ``timerWheelEnable``."""
        remark = f"the broker[{self._broker_ip}] pop message is forbidden because {self._reason}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
