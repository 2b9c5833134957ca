"""Settings changed over the wire: which keys may change, to which values, and how the changes are stored.

``Changes`` are the keys of ``config.CHANGEABLE`` that an operator has set with UPDATE_BROKER_CONFIG, as text. They
override the settings that the process was started with, and are stored in a file of their own: the operator's file is
never written. A request is accepted or refused as a whole.

Java: ``AdminBrokerProcessor.updateBrokerConfig``, ``remoting.Configuration``. Apache accepts every key that it knows
and ignores the others. Here unknown keys and keys without effect are ignored too; a key that is fixed at the start is
refused, so that no operator believes that it was changed.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from firearrow.broker.settings.config import CHANGEABLE, BrokerSettings, load_changed, refuse_promises
from firearrow.broker.state.state_file import decode_line
from firearrow.errors import BadBody, SettingsError
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import MOST_BODY_BYTES, Refused
from firearrow.settings import Source, format_properties, parse_properties
from firearrow.settings.schema import leaves

PATH: Final = "config/broker.properties"
ALWAYS_BLACK: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
FIXED_IN_A_GROUP: Final = frozenset({"flushDiskType"})
"""Keys that a member of a failover group may not change while it runs: what its log may lack depends on them."""
SECRET: Final = frozenset({"key_password", "init_authentication_user", "inner_client_authentication_credentials"})

Changes = Mapping[str, str]


def read_changes(body: bytes, settings: BrokerSettings) -> Changes:
    """Return the changes of a request; raise ``Refused`` when a key may not be changed or a value is not usable."""
    wanted = _parse(body)
    black = ALWAYS_BLACK.union(settings.broker.config_black_list.split(";"))
    if not black.isdisjoint(wanted):
        raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    fixed = {leaf.apache_name for leaf in leaves(BrokerSettings)} - CHANGEABLE
    if settings.failover.coordinator_address:
        fixed |= FIXED_IN_A_GROUP
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
    if len(body) > MOST_BODY_BYTES:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"{len(body)} bytes are no change of settings: send fewer keys")
    try:
        return parse_properties(body.decode())
    except (UnicodeDecodeError, SettingsError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from error


def still_allowed(changes: Changes, settings: BrokerSettings) -> Changes:
    """Return the stored changes that count: a broker that has joined a failover group since keeps some settings."""
    if not settings.failover.coordinator_address:
        return changes
    return {key: value for key, value in changes.items() if key not in FIXED_IN_A_GROUP}


def overlay(settings: BrokerSettings, changes: Changes) -> BrokerSettings:
    """Return the settings with changes applied; raise ``SettingsError`` for a value that is not usable."""
    if not changes:
        return settings
    started_with = {".".join(leaf.path): _value(settings, leaf.path) for leaf in leaves(BrokerSettings)}
    sources = [Source("the settings it was started with", started_with), Source("the change", changes)]
    return load_changed(sources).value


class KeptChanges:
    """The changes that the file stores; a journal line is one key with its value."""

    def __init__(self) -> None:
        self.value: Changes = {}
        self.changes: dict[str, None] = {}
        """Keys that changed since the file was written."""

    def add(self, more: Changes) -> None:
        """Add changes; they override earlier ones."""
        self.value = {**self.value, **more}
        self.changes.update(dict.fromkeys(more))

    def pieces(self) -> Iterator[bytes]:
        """Yield the file."""
        yield format_properties(dict(sorted(self.value.items()))).encode()

    def restore(self, data: bytes) -> None:
        """Load the changes from their file; keys that may not be changed (any more) are ignored."""
        try:
            kept = parse_properties(data.decode())
        except (UnicodeDecodeError, SettingsError) as error:
            raise BadBody(f"the file of changed settings cannot be read: {error}") from error
        self.value = {key: value for key, value in kept.items() if key in CHANGEABLE}

    def line(self, key: str) -> bytes:
        """Return the journal line of a key."""
        return msgspec.json.encode((key, self.value[key]))

    def apply(self, line: bytes) -> None:
        """Apply a journal line to the table."""
        key, value = decode_line(line, tuple[str, str])
        if key in CHANGEABLE:
            self.value = {**self.value, key: value}


def values(settings: BrokerSettings) -> dict[str, str]:
    """Return all settings except secrets, under Apache's names, as text."""
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
