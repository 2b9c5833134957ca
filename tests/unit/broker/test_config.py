"""Every key of Apache's broker.conf is a setting, without effect, or refused; and what each leads to."""

import json
from pathlib import Path

import pytest

from firearrow.broker.settings.apache_keys import REFUSED, WITHOUT_EFFECT
from firearrow.broker.settings.config import CHANGEABLE, BrokerSettings, load_settings
from firearrow.errors import SettingsError
from firearrow.settings import Source
from firearrow.settings.schema import leaves

APACHE = json.loads((Path(__file__).parent / "apache_keys.json").read_text())
SETTINGS = {leaf.apache_name for leaf in leaves(BrokerSettings)}


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_every_key_of_apache_is_known(version: str) -> None:
    assert not set(APACHE[version]) - SETTINGS - WITHOUT_EFFECT.keys() - REFUSED.keys()


def test_tables_name_keys_of_apache_only_and_each_once() -> None:
    known = {*APACHE["5.5.0"], *APACHE["4.9.7"]}
    assert not (WITHOUT_EFFECT.keys() | REFUSED.keys()) - known
    assert not WITHOUT_EFFECT.keys() & REFUSED.keys()
    assert not SETTINGS & (WITHOUT_EFFECT.keys() | REFUSED.keys())
    assert CHANGEABLE <= SETTINGS


def from_file(text: str) -> tuple[BrokerSettings, tuple[str, ...]]:
    loaded = load_settings([Source.from_text("broker.conf", text)])
    return loaded.value, loaded.warnings


def test_settings_of_every_part_are_honoured() -> None:
    settings, warnings = from_file(
        "brokerName = broker-a\nbrokerIP1=10.0.0.1\nflushDiskType=SYNC_FLUSH\nmaxMessageSize=1024\n"
        "mappedFileSizeConsumeQueue=6000\nlongPollingEnable=false\nserverChannelMaxIdleTimeSeconds=7\n"
    )
    assert warnings == ()
    assert (settings.broker.broker_name, settings.broker.broker_ip1) == ("broker-a", "10.0.0.1")
    assert settings.log.syncs_first
    assert settings.log.max_message_size == 1024
    assert settings.queues.mapped_file_size_consume_queue == 6000
    assert not settings.pull.long_polling_enable
    assert settings.limits.idle_s == 7


def test_keys_without_effect_and_mistakes_are_warned_about() -> None:
    _, warnings = from_file("sendMessageThreadPoolNums=8\nautoCreateTopicEnabled=false\n")
    assert "no effect" in warnings[0]
    assert "did you mean autoCreateTopicEnable?" in warnings[1]


@pytest.mark.parametrize(
    "line",
    [
        "brokerRole=SLAVE",
        "enableDLegerCommitLog=true",
        "enableControllerMode=true",
        "storeType=defaultRocksDB",
        "timerInterceptDelayLevel=true",
        "timerPrecisionMs=300",
        "timerMaxDelaySec=3456001",
        "storePathCommitLog=/elsewhere",
    ],
)
def test_promises_that_cannot_be_kept_refuse_to_start(line: str) -> None:
    with pytest.raises(SettingsError, match=line.partition("=")[0]):
        from_file(line)


@pytest.mark.parametrize(
    "line", ["brokerRole=ASYNC_MASTER", "aclEnable=false", "storeType=default", "inSyncReplicas=1"]
)
def test_promises_that_ask_for_nothing_are_silent(line: str) -> None:
    assert from_file(line)[1] == ()


def test_a_bad_list_of_delays_is_refused() -> None:
    with pytest.raises(SettingsError, match="delay level 2"):
        from_file("messageDelayLevel=1s soon")
