"""Operators' work on a cluster under load, of which clients must notice nothing.

A master is restarted without a failed send, by hand or by draining; queues are added and taken away. Each function
returns figures and fails by AssertionError.
"""

import re
from typing import Literal

from campaigns.broker.clusters import Cluster
from campaigns.broker.load import Load
from campaigns.broker.promises import Findings
from campaigns.faults.ledger import Figures
from judges.server_process import wait_for

Way = Literal["wipe", "drain"]
WAYS: tuple[Way, ...] = ("wipe", "drain")
RESTART_CLIENTS = ("java-5.5.0", "java-4.9.8", "go")
ROUTE_PERIOD_S = 40
"""Clients look at routes every 30 s; operators wait for 40."""
STOP_SECONDS = 90.0
QUEUES = 4
QUICK_ROUTE_MS = 1_000
JAVA_CLIENTS = ("java-5.5.0", "java-4.9.8")
"""The clients that can be configured to refresh routes every second."""
SETTLED_SECONDS = 90.0


def restarts(way: Way) -> Figures:
    """Restart one of two masters under load, with the clients' own settings throughout: no send fails."""
    drain = {"drainWaitSeconds": str(ROUTE_PERIOD_S)} if way == "drain" else {}
    arguments = ["--drain"] if way == "drain" else []
    with Cluster("ours", clients=RESTART_CLIENTS, settings=drain, arguments=arguments) as cluster:
        topic = cluster.topic("upkeep", QUEUES)
        master = cluster.masters[0]
        with Load(cluster.judges, topic, producers=6, consumers=3) as load:
            load.advance()
            if way == "wipe":
                for names in cluster.name_servers:
                    cluster.mqadmin.run(f"wipeWritePerm -n {names.address} -b {master.name}")
                load.run_for(ROUTE_PERIOD_S)
            master.stop(timeout_seconds=STOP_SECONDS)
            load.advance(consuming=False)
            master.start()
            if way == "wipe":
                for names in cluster.name_servers:
                    cluster.mqadmin.run(f"addWritePerm -n {names.address} -b {master.name}")
            load.advance()
            findings = load.finish()
            errors = [error for one in load.produced for error in one.errors]
        assert findings.failed == 0, f"{findings.failed} sends failed: {errors[:3]}"
        return _kept(findings)


def shrinks(cluster: Cluster) -> Figures:
    """16 queues become 8: writes first, then, once the rest is read, reads."""
    topic = cluster.topic("shrinking", 16)
    with _load(cluster, topic) as load:
        load.advance()
        _resize(cluster, topic, reads=16, writes=8)
        load.run_for(3 * QUICK_ROUTE_MS / 1000)
        load.advance()
        drained = f"queues 8 to 15 of {topic} to be read to their ends"
        wait_for(lambda: _behind(cluster, load.group, topic, range(8, 16)) == 0, drained, SETTLED_SECONDS)
        _resize(cluster, topic, reads=8, writes=8)
        load.run_for(3 * QUICK_ROUTE_MS / 1000)
        load.advance()
        findings = load.finish()
        ends = [place.queue for one in load.produced for _, place in one.acks[-20:]]
        assert max(ends) < 8, f"the last messages went to queues {sorted(set(ends))}"
        assert findings.failed == 0, f"{findings.failed} sends failed"
        return _kept(findings)


def grows(cluster: Cluster) -> Figures:
    """4 queues become 8 under consumers that start new queues at their ends: they miss nothing of the new ones."""
    topic = cluster.topic("growing", 4)
    with _load(cluster, topic, start="last") as load:
        load.advance()
        _resize(cluster, topic, reads=8, writes=8)
        wait_for(lambda: _queues_used(load) == 8, "deliveries from all 8 queues of a master", SETTLED_SECONDS)
        load.advance()
        findings = load.finish()
        assert findings.failed == 0, f"{findings.failed} sends failed"
        return _kept(findings)


def raises_reads(cluster: Cluster) -> Figures:
    """8 queues are written and 4 read; what is in the others arrives once they may be read."""
    topic = cluster.topic("half-read", 8)
    _resize(cluster, topic, reads=4, writes=8)
    with _load(cluster, topic) as load:
        load.advance()
        load.run_for(2 * QUICK_ROUTE_MS / 1000)
        early = _queues_used(load)
        assert early == 4, f"deliveries from {early} queues of a master, of which 4 may be read"
        _resize(cluster, topic, reads=8, writes=8)
        wait_for(lambda: _queues_used(load) == 8, "deliveries from all 8 queues of a master", SETTLED_SECONDS)
        findings = load.finish()
        assert findings.failed == 0, f"{findings.failed} sends failed"
        return _kept(findings)


RESIZINGS = (shrinks, grows, raises_reads)


def _load(cluster: Cluster, topic: str, start: Literal["first", "last"] = "first") -> Load:
    return Load(cluster.judges, topic, producers=4, consumers=4, route_ms=QUICK_ROUTE_MS, start=start)


def _resize(cluster: Cluster, topic: str, *, reads: int, writes: int) -> None:
    said = cluster.admin(f"updateTopic -c DefaultCluster -t {topic} -r {reads} -w {writes}")
    assert said.count("success") >= len(cluster.masters), said


def _behind(cluster: Cluster, group: str, topic: str, queues: range) -> int:
    """The number of messages of some queues that a group has not committed; -1 while not all of them are listed."""
    progress = cluster.admin(f"consumerProgress -g {group}")
    found = re.findall(rf"^{topic}\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)", progress, re.MULTILINE)
    behind = [int(end) - int(offset) for queue, end, offset in found if int(queue) in queues]
    return sum(behind) if len(behind) == len(queues) * len(cluster.masters) else -1


def _queues_used(load: Load) -> int:
    """From how many queue numbers messages have come."""
    return len({delivery.queue for report in load.so_far() for delivery in report.deliveries})


def _kept(findings: Findings) -> Figures:
    assert not findings.broken, findings.broken
    return findings.figures()
