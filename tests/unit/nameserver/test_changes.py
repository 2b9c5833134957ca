"""Settings over the wire: what may be changed, and that a refusal changes nothing."""

import msgspec
import pytest

from firearrow.nameserver.changes import decode_changes, encode_changes, listing, overlay, read_changes
from firearrow.nameserver.config import CHANGEABLE, WITHOUT_EFFECT, NameServerConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.settings import Source, load, parse_properties

CONFIG = NameServerConfig()


def refusal(body: bytes, config: NameServerConfig = CONFIG) -> Refused:
    with pytest.raises(Refused) as caught:
        read_changes(body, config)
    return caught.value


def test_allowed_keys_change_what_they_name() -> None:
    wanted = read_changes(b"orderMessageEnable=true\nscanNotActiveBrokerInterval = 700\n", CONFIG)
    changed = overlay(CONFIG, wanted)
    assert changed.order_message_enable
    assert changed.scan_not_active_broker_interval == 700
    assert msgspec.structs.replace(changed, order_message_enable=False, scan_not_active_broker_interval=5000) == CONFIG


@pytest.mark.parametrize("key", ["configStorePath", "kvConfigPath", "configBlackList", "rocketmqHome"])
def test_paths_cannot_be_changed_whatever_the_settings_say(key: str) -> None:
    open_minded = NameServerConfig(config_black_list="")
    assert refusal(f"{key}=/etc/passwd".encode(), open_minded).code == ResponseCode.NO_PERMISSION
    assert key not in CHANGEABLE


def test_the_black_list_of_the_settings_counts_too() -> None:
    config = NameServerConfig(config_black_list="orderMessageEnable;x")
    assert refusal(b"orderMessageEnable=true", config).remark == "Can not update config in black list."


@pytest.mark.parametrize("body", [b"listenPort=1", b"bindAddress=x", b"noSuchKey=1", b"orderMessageEnable=true\nx=1"])
def test_nothing_outside_the_list_is_changed(body: bytes) -> None:
    assert refusal(body).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "body",
    [b"scanNotActiveBrokerInterval=ten", b"scanNotActiveBrokerInterval=1", b"waitSecondsForService=-1",
     b"orderMessageEnable=perhaps"],
)  # fmt: skip
def test_values_are_read_and_bounded(body: bytes) -> None:
    assert refusal(body).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("body", [b"\xff\xfe=1", b"a=\\u12"])
def test_what_is_not_properties_text_is_refused(body: bytes) -> None:
    assert refusal(body).code == ResponseCode.SYSTEM_ERROR


def test_nothing_asked_is_nothing_changed() -> None:
    assert read_changes(b"", CONFIG) == {}
    assert read_changes(b"# only a comment\n", CONFIG) == {}


def test_changes_survive_their_file() -> None:
    changes = {"orderMessageEnable": "true", "enableTopicList": "false"}
    assert decode_changes(encode_changes(changes)) == changes
    assert decode_changes(b"kvConfigPath=/etc/passwd\norderMessageEnable=true\n") == {"orderMessageEnable": "true"}


def test_the_listing_can_be_read_back() -> None:
    config = NameServerConfig(order_message_enable=True, listen_port=1)
    lines = listing(config).decode()
    assert lines.splitlines() == sorted(lines.splitlines())
    assert "orderMessageEnable=true" in lines.splitlines()
    assert load(NameServerConfig, [Source("listing", parse_properties(lines))]).value == config


def test_every_changeable_key_is_a_setting() -> None:
    known = {field.encode_name for field in msgspec.structs.fields(NameServerConfig)}
    assert known >= CHANGEABLE
    assert not known & set(WITHOUT_EFFECT)
