"""A network that falls apart between client and servers, and heals: in namespaces of the kernel, with packets lost."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from judges import FireArrowBroker, FireArrowNameServer, fresh
from tests.integration.client.network import Divided, can_divide

pytestmark = [pytest.mark.real, pytest.mark.skipif(not can_divide(), reason="network namespaces need root")]

ROOT = Path(__file__).parents[3]
SOON_S = 10.0
"""Two seconds on a quiet machine; this is for a busy one."""


@pytest.mark.parametrize("seconds", [2.0, 12.0])
def test_a_partition_loses_nothing_and_ends_when_it_heals(seconds: float) -> None:
    with Divided() as network, FireArrowNameServer() as names:
        broker = FireArrowBroker(name_servers=[names.address], settings={"brokerIP1": network.host_ip})
        broker.address = f"{network.host_ip}:{broker.port}"
        with broker:
            topic = broker.create_topic(fresh("parted"))
            words = [sys.executable, "-m", "tests.integration.client.roaming", f"{network.host_ip}:{names.port}", topic]
            client = subprocess.Popen(
                network.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            try:
                assert ask(client) == "ready"
                network.part()
                time.sleep(seconds)  # the partition's own length, not a wait for anything
                network.join()
                assert ask(client, f"goes-on {seconds:g} s apart") == "on"
                acknowledged, lost, delays, told = ask(client, "end").split(";", 3)
            finally:
                client.kill()
                client.communicate()
    print(told)
    assert int(acknowledged) > 10
    assert int(lost) == 0
    slowest = max(float(each.partition("=")[2]) for each in delays.split(","))
    assert slowest < SOON_S, f"messages came after {slowest:.1f} s: {told}"


def ask(client: "subprocess.Popen[str]", word: str = "") -> str:
    assert client.stdin is not None
    assert client.stdout is not None
    if word:
        client.stdin.write(word + "\n")
        client.stdin.flush()
    return client.stdout.readline().strip()
