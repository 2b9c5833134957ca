"""The settings of a running broker, name server or controller. Bodies are ``name=value`` lines."""

from typing import ClassVar

from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.conversation import EmptyAnswer, Fields, Request


class UpdateBrokerConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change settings of a broker."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_BROKER_CONFIG
    request_body = PropertiesText


class GetBrokerConfigAnswer(Fields, frozen=True, kw_only=True, gc=False):
    """The edition of the settings, a DataVersion as JSON."""

    version: str


class GetBrokerConfig(Request[GetBrokerConfigAnswer], frozen=True, kw_only=True, gc=False):
    """Read all settings of a broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CONFIG
    answer_body = PropertiesText


class UpdateNamesrvConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change settings of a name server."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_NAMESRV_CONFIG
    request_body = PropertiesText


class GetNamesrvConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Read all settings of a name server."""

    code: ClassVar[RequestCode] = RequestCode.GET_NAMESRV_CONFIG
    answer_body = PropertiesText


class UpdateControllerConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Change settings of a controller."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONTROLLER_CONFIG
    request_body = PropertiesText


class GetControllerConfig(Request[EmptyAnswer], frozen=True, kw_only=True, gc=False):
    """Read all settings of a controller."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONTROLLER_CONFIG
    answer_body = PropertiesText
