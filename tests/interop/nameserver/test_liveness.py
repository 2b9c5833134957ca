"""Once for real: Apache's broker dies or hangs, and our name server stops showing it.

The broker runs with slave acting as master enabled, because only then does it tell the name server a timeout of its
own (``brokerNotActiveTimeoutMillis``) and send a heartbeat each second; otherwise it may be silent for 120 seconds.
"""

import time

import pytest

from judges import ApacheBroker, Server
from judges.server_process import answers, wait_for
from judges.wire import GET_CLUSTER

pytestmark = pytest.mark.apache

TIMEOUT_S = 4.0
SCAN_S = 5.0
SLACK_S = 3.0
SETTINGS = {"enableSlaveActingMaster": "true", "brokerNotActiveTimeoutMillis": str(int(TIMEOUT_S * 1000))}


def shows(names: Server, broker: ApacheBroker) -> bool:
    listed = answers(names.address, GET_CLUSTER)
    assert listed is not None, "the name server does not answer"
    return broker.address.encode() in listed


def test_a_broker_that_is_killed_is_gone_at_once(ours: Server) -> None:
    with ApacheBroker(name_servers=[ours.address], name="killed") as broker:
        assert shows(ours, broker)
        broker.kill()
        started = time.monotonic()
        wait_for(lambda: not shows(ours, broker), "the killed broker to be gone", SLACK_S)
        assert time.monotonic() - started < SLACK_S


def test_a_broker_that_hangs_is_gone_when_its_lease_is_over(ours: Server) -> None:
    with ApacheBroker(name_servers=[ours.address], name="hung", settings=SETTINGS) as broker:
        wait_until_it_stays(ours, broker)
        broker.pause()
        wait_for(lambda: not shows(ours, broker), "the hung broker to be gone", TIMEOUT_S + SCAN_S + SLACK_S)


def wait_until_it_stays(ours: Server, broker: ApacheBroker) -> None:
    """Heartbeats keep it for longer than its timeout and a scan."""
    started = time.monotonic()
    while time.monotonic() - started < TIMEOUT_S + SCAN_S + 1.0:
        assert shows(ours, broker)
        time.sleep(0.2)
