"""The deployment modes of RocketMQ's documents, as ``examples/deploy`` sets them up, with a stock client through kills.

One mode and one client a commit, in turn. A slave is killed, and a master; nothing acknowledged may be lost, and each
queue keeps its order. Where another master is left producers must go on meanwhile.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from campaigns.broker.deaths import SMALL_STORE
from campaigns.broker.load import Load
from campaigns.rotation import this_turn
from firearrow.settings import parse_properties
from judges import FireArrowBroker, FireArrowNameServer, JudgeProcess, fresh

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3] / "examples" / "deploy"
MODES = ("single-master", "several-masters", "masters-with-async-slaves", "masters-with-sync-slaves")
CLIENTS = ("go", "java-5.5.0")
OF_THE_MACHINE = frozenset({"namesrvAddr", "listenPort", "storePathRootDir", "brokerName", "brokerId"})
"""Settings of the samples that name addresses and directories, which every machine has of its own."""
PROGRESS = 50
"""Messages that are acknowledged between two events."""


class Mode(NamedTuple):
    """The running brokers of a mode."""

    names: FireArrowNameServer
    masters: list[FireArrowBroker]
    slaves: list[FireArrowBroker]


def broker_of(sample: Path, names: FireArrowNameServer) -> FireArrowBroker:
    told = parse_properties(sample.read_text())
    settings = {key: str(value) for key, value in told.items() if key not in OF_THE_MACHINE}
    return FireArrowBroker(
        name_servers=[names.address],
        name=str(told["brokerName"]),
        broker_id=int(str(told["brokerId"])),
        settings={**SMALL_STORE, **settings},
    )


@contextmanager
def running(mode: str) -> Iterator[Mode]:
    with ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer())
        brokers = [broker_of(sample, names) for sample in sorted((ROOT / mode).glob("*.conf"))]
        for broker in brokers:
            stack.enter_context(broker)
        masters = [broker for broker in brokers if broker.settings["brokerId"] == "0"]
        yield Mode(names, masters, [broker for broker in brokers if broker not in masters])


@pytest.mark.rotating
@pytest.mark.parametrize(("mode", "client"), this_turn(list(product(MODES, CLIENTS)), __name__))
def test_nothing_acknowledged_is_lost_when_brokers_of_a_mode_are_killed(mode: str, client: str) -> None:
    with running(mode) as brokers, JudgeProcess(client) as process:
        topic = fresh("modes")
        for master in brokers.masters:
            master.create_topic(topic, 4)
        with Load([process.at(brokers.names.address)], topic, producers=2, consumers=2) as load:
            load.advance(PROGRESS)
            for victim in (*brokers.slaves[:1], brokers.masters[0]):
                victim.kill()
                if len(brokers.masters) > 1 or victim in brokers.slaves:
                    load.advance(PROGRESS)
                victim.start()
                load.advance(PROGRESS)
            findings = load.finish()
    assert findings.broken == []
    assert findings.acknowledged >= 4 * PROGRESS
