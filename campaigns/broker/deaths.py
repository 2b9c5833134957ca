"""A broker dies again and again under eight producers and eight consumers of the stock Java and Go clients.

By ``kill -9``, which shows that recovery finds everything that was written; or by the power of the file system that
holds its store, which shows that what was acknowledged had been synced. Every acknowledged message must be consumed,
each queue must keep the order of every producer, and no offset may be skipped or hold two messages.
"""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from campaigns.broker.load import Load
from campaigns.broker.planted import Mutant, program
from campaigns.broker.promises import Findings
from campaigns.faults.ledger import Figures
from campaigns.faults.loop_file_system import FileSystem, LoopFileSystem
from firearrow.store.config import FlushMode
from judges import FireArrowBroker, FireArrowNameServer, Judge, JudgeProcess, fresh

CLIENTS = ("java-5.5.0", "go")
PRODUCERS = CONSUMERS = 8
QUEUES = 8
BODY_BYTES = 200
LONGEST_MOMENT_S = 0.5
"""The longest time from the first signs of progress to a death."""
MUTANT_ADVANCE = 20

# Small files, so that deaths fall on their beginnings and ends too, and a small file system holds a whole run.
SMALL_STORE = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "fileReservedTime": "72",
    "diskMaxUsedSpaceRatio": "95",
}


@dataclass
class Run:
    """The outcome of one run."""

    deaths: int
    findings: Findings
    broken: list[str]

    def figures(self) -> Figures:
        """For the ledger."""
        return {"deaths": self.deaths, **self.findings.figures(), "broken": len(self.broken)}


@contextmanager
def judges(names: FireArrowNameServer) -> Iterator[list[Judge]]:
    """The stock clients at a name server."""
    with ExitStack() as stack:
        yield [stack.enter_context(JudgeProcess(client)).at(names.address) for client in CLIENTS]


def killed(flush: FlushMode, kills: int, seed: int) -> Run:
    """Kill a broker so many times."""
    chance = random.Random(seed)
    with (
        FireArrowNameServer() as names,
        FireArrowBroker(name_servers=[names.address], settings={**SMALL_STORE, "flushDiskType": flush}) as broker,
        judges(names) as clients,
    ):
        topic = broker.create_topic(fresh("kills"), QUEUES)
        with Load(clients, topic, producers=PRODUCERS, consumers=CONSUMERS, size=BODY_BYTES) as load:
            for _ in range(kills):
                load.advance()
                load.run_for(chance.random() * LONGEST_MOMENT_S)
                broker.restart()
            load.advance()
            return _judged(load, kills)


def unpowered(cuts: int, seed: int, *, filesystem: FileSystem = "ext4", mutant: Mutant = "") -> Run:
    """Cut the power of a broker that syncs so many times."""
    chance = random.Random(seed)
    with (
        LoopFileSystem(filesystem) as mounted,
        FireArrowNameServer() as names,
        judges(names) as clients,
        _powered(mounted, names, mutant, seed) as broker,
    ):
        topic = broker.create_topic(fresh("cuts"), QUEUES)
        with Load(clients, topic, producers=PRODUCERS, consumers=CONSUMERS, size=BODY_BYTES) as load:
            for cut in range(cuts):
                # Consumers of a broker that answers too early may wait for ever for what is lost.
                load.advance(*([MUTANT_ADVANCE] if mutant else []), consuming=not mutant)
                load.run_for(chance.random() * LONGEST_MOMENT_S)
                mounted.cut_power()
                broker.kill()
                mounted.power_up()
                broker.program = program(f"boot-{seed}-{cut + 1}", mutant)
                broker.start()
            load.advance(consuming=not mutant)
            return _judged(load, cuts, patient=not mutant)


@contextmanager
def _powered(
    mounted: LoopFileSystem, names: FireArrowNameServer, mutant: Mutant, seed: int
) -> Iterator[FireArrowBroker]:
    store = os.path.join(mounted.root, "store")
    settings = {**SMALL_STORE, "flushDiskType": "SYNC_FLUSH", "storePathRootDir": store}
    boot = program(f"boot-{seed}-0", mutant)
    with FireArrowBroker(name_servers=[names.address], settings=settings, program=boot) as broker:
        broker.forgives = (os.strerror(errno.EIO),)  # what a disk without power answers until the broker is killed
        yield broker


def _judged(load: Load, deaths: int, *, patient: bool = True) -> Run:
    findings = load.finish(patient=patient)
    broken = findings.broken
    again = load.read_again()
    broken += [f"read again: {complaint}" for complaint in again.broken if complaint not in broken]
    return Run(deaths, findings, broken)
