"""CVE-2023-33246: UPDATE_BROKER_CONFIG from anybody, whose rocketmqHome became part of a shell command.

Our rule: no request reaches a shell; of the settings only those of an allow-list change over the wire.
"""

import pytest

from firearrow.broker.settings.config import CHANGEABLE
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.settings import parse_properties
from judges.server_process import wait_for
from tests.integration.security.victim import Victim

pytestmark = pytest.mark.real

NO_PERMISSION = 16
EXPLOITS = (
    "filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch {marker};\n",
    "rocketmqHome=-c $@|sh . echo touch {marker};\n",
    "brokerPermission=4\nrocketmqHome=`touch {marker}`\n",
    "brokerConfigPath={marker}\n",
    "configBlackList=\n",
)
WITHOUT_EFFECT = ("filterServerNums=5\n", "useTLS=$(touch {marker})\n")


def replay(broker: Victim) -> None:
    """Say what the published exploits say, then try every other key."""
    marker = broker.home / "pwned"
    settings = broker.ask(GetBrokerConfig()).body
    before = broker.bytes_of_files()
    answers = [broker.ask(UpdateBrokerConfig(), text.format(marker=marker).encode()) for text in EXPLOITS]
    for text in WITHOUT_EFFECT:
        broker.ask(UpdateBrokerConfig(), text.format(marker=marker).encode())
    assert not broker.children(), f"the broker has started {broker.children()}"
    assert not marker.exists(), "a command ran"
    assert [answer.code for answer in answers] == [NO_PERMISSION] * len(EXPLOITS), "an exploit was not refused"
    for key, value in parse_properties(settings.decode()).items():
        answer = broker.ask(UpdateBrokerConfig(), f"{key}={value}x".encode())
        assert answer.code == NO_PERMISSION or key in CHANGEABLE, f"{key} was changed"
        assert answer.code, f"{key} took a value of another type"
    assert broker.ask(GetBrokerConfig()).body == settings, "settings have changed"
    assert broker.bytes_of_files() == before, "files have changed"


def test_no_setting_becomes_a_command() -> None:
    with Victim("broker") as broker:
        replay(broker)
        answer = broker.ask(UpdateBrokerConfig(), b"fileReservedTime=71\n")
        assert answer.code == 0
        wait_for(lambda: b"fileReservedTime=71" in broker.ask(GetBrokerConfig()).body, "a change that is allowed")
