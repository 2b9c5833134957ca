"""Settings changed over the wire: what may be changed, to what, and how it is kept.

``Changes`` are the keys of ``config.CHANGEABLE`` that an operator has set with UPDATE_BROKER_CONFIG, as text. They lie
over the settings that the process was started with, and are kept in a file of their own: the operator's file is never
written to. A request is taken whole or refused whole.

Java: ``AdminBrokerProcessor.updateBrokerConfig``, ``remoting.Configuration``. Apache takes every key that it knows and
passes over the others. Here a key that is known and has no effect, or is not known at all, is passed over too; one that
is honoured but fixed at the start is refused, so that nobody believes it was changed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from firearrow.broker.config import CHANGEABLE, BrokerSettings, load_settings, refuse_promises
from firearrow.broker.statefile import decode_line
from firearrow.errors import BadBody, SettingsError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.settings import Source, format_properties, parse_properties
from firearrow.settings.schema import leaves

PATH: Final = "config/broker.properties"
ALWAYS_BLACK: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
SECRET: Final = frozenset({"key_password"})

Changes = Mapping[str, str]


def read_changes(body: bytes, settings: BrokerSettings) -> Changes:
    """What a request asks to change; raise ``Refused`` when any part of it may not be."""
    wanted = _parse(body)
    black = ALWAYS_BLACK.union(settings.broker.config_black_list.split(";"))
    if not black.isdisjoint(wanted):
        raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    fixed = {leaf.apache_name for leaf in leaves(BrokerSettings)} - CHANGEABLE
    for key, value in wanted.items():
        if key in fixed and values(settings).get(key) != value:
            raise Refused(ResponseCode.NO_PERMISSION, f"{key} cannot be changed while the broker runs: restart it")
        try:
            refuse_promises(key, value, "the change")
        except SettingsError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
    changes = {key: value for key, value in wanted.items() if key in CHANGEABLE}
    try:
        overlay(settings, changes)
    except SettingsError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
    return changes


def _parse(body: bytes) -> Changes:
    try:
        return parse_properties(body.decode())
    except (UnicodeDecodeError, SettingsError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from error


def overlay(settings: BrokerSettings, changes: Changes) -> BrokerSettings:
    """The settings with changes laid over them; raise ``SettingsError`` for a value that is not usable."""
    if not changes:
        return settings
    started_with = {".".join(leaf.path): _value(settings, leaf.path) for leaf in leaves(BrokerSettings)}
    sources = [Source("the settings it was started with", started_with), Source("the change", changes)]
    return load_settings(sources).value


class KeptChanges:
    """The changes that a file keeps: few, so a line of its journal is all of them."""

    def __init__(self) -> None:
        self.value: Changes = {}
        self.changes: dict[str, None] = {}
        """The keys that the file does not have as they are."""

    def add(self, more: Changes) -> None:
        """Lay more changes over those that are there."""
        self.value = {**self.value, **more}
        self.changes.update(dict.fromkeys(more))

    def pieces(self) -> Iterator[bytes]:
        """The file."""
        yield format_properties(dict(sorted(self.value.items()))).encode()

    def restore(self, data: bytes) -> None:
        """Take over a file; keys that may not be changed (any more) are left out."""
        try:
            kept = parse_properties(data.decode())
        except (UnicodeDecodeError, SettingsError) as error:
            raise BadBody(f"the file of changed settings cannot be read: {error}") from error
        self.value = {key: value for key, value in kept.items() if key in CHANGEABLE}

    def line(self, key: str) -> bytes:
        """A key and its value."""
        return msgspec.json.encode((key, self.value[key]))

    def apply(self, line: bytes) -> None:
        """Take over a line of the journal."""
        key, value = decode_line(line, tuple[str, str])
        if key in CHANGEABLE:
            self.value = {**self.value, key: value}


def values(settings: BrokerSettings) -> dict[str, str]:
    """All settings under Apache's names, as text."""
    return {
        leaf.apache_name: _text(_value(settings, leaf.path))
        for leaf in leaves(BrokerSettings)
        if leaf.name not in SECRET
    }


def _value(settings: BrokerSettings, path: tuple[str, ...]) -> object:
    value: object = settings
    for step in path:
        value = getattr(value, step)
    return value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
