"""Request and response codes, by the names that Apache RocketMQ gives them."""

from enum import IntEnum


class RequestCode(IntEnum):
    """What a request asks for."""

    SEND_MESSAGE = 10
    SEND_MESSAGE_V2 = 310


class ResponseCode(IntEnum):
    """How a request ended."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
