"""Settings changed over the wire: which keys may change, the checks of values, and the file of changes.

``Changes`` are the keys of ``config.CHANGEABLE`` that an operator has set with UPDATE_NAMESRV_CONFIG, as text. They
override the settings at the start, and are stored in ``namesrv.properties``; the operator's own file is never written.
A request is applied as a whole or refused as a whole; a refused request changes nothing.

Java: ``DefaultRequestProcessor.updateConfig`` and ``getConfig``, ``remoting.Configuration``. Apache has a list of
forbidden keys and ignores values it cannot read; here a list of allowed keys decides, and values are checked.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from firearrow.errors import SettingsError
from firearrow.nameserver.config import CHANGEABLE, NameServerConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.settings import Source, format_properties, load, parse_properties

Changes = Mapping[str, str]

ALWAYS_BLACK: Final = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
"""Keys that are always forbidden."""


def read_changes(body: bytes, config: NameServerConfig) -> Changes:
    """Return the changes of a request; raise ``Refused`` if one of them is not allowed."""
    wanted = _parse(body)
    black = ALWAYS_BLACK.union(config.config_black_list.split(";"))
    if not black.isdisjoint(wanted):
        raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for key in wanted:
        if key not in CHANGEABLE:
            raise Refused(ResponseCode.NO_PERMISSION, f"{key} cannot be changed while the name server runs")
    _check(wanted, config)
    return wanted


def overlay(config: NameServerConfig, changes: Changes) -> NameServerConfig:
    """Return the settings with the changes applied; raise ``SettingsError`` for an invalid value."""
    started_with = Source("the settings it was started with", _values(config))
    return load(NameServerConfig, [started_with, Source("the change", changes)]).value


def decode_changes(data: bytes) -> Changes:
    """Read the file of changes; keys that may not be changed are left out."""
    try:
        kept = parse_properties(data.decode())
    except UnicodeDecodeError as error:
        raise SettingsError(f"the file of changed settings is not UTF-8: {error}") from error
    return {key: value for key, value in kept.items() if key in CHANGEABLE}


def encode_changes(changes: Changes) -> bytes:
    """Return the file of changes."""
    return format_properties(dict(sorted(changes.items()))).encode()


def listing(config: NameServerConfig) -> bytes:
    """Return all settings as sorted lines, as Apache lists them."""
    lines = {key: _text(value) for key, value in sorted(_values(config).items())}
    return format_properties(lines).encode()


def _parse(body: bytes) -> Changes:
    try:
        return parse_properties(body.decode())
    except (UnicodeDecodeError, SettingsError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the body is not properties text: {error}") from error


def _check(wanted: Changes, config: NameServerConfig) -> None:
    try:
        overlay(config, wanted)
    except SettingsError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _values(config: NameServerConfig) -> dict[str, object]:
    values: dict[str, object] = msgspec.to_builtins(config)
    return values


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
