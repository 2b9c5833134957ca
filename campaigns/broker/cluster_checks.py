"""Promises of two masters to their clients: queues on both, deaths that cost nothing, order that nothing breaks.

Each function takes a running `Cluster` and returns figures; it fails by AssertionError.
"""

import time
from collections import defaultdict
from collections.abc import Sequence

from campaigns.broker.clusters import REGISTRATION_MS, Cluster
from campaigns.broker.load import Load
from campaigns.faults.ledger import Figures
from judges.producers import Produced
from judges.reports import ReceiveReport
from judges.server_process import wait_for

QUEUES = 4
MORE_QUEUES = 6
SHARDS = 2 * QUEUES
PRODUCERS = CONSUMERS = 4
ROUTE_MS = 1_000
REGISTRATION_SLACK_S = 10.0


def spreads(cluster: Cluster) -> Figures:
    """``updateTopic -c`` makes queues on both masters, ``-b`` another number on one; producers use all of them."""
    topic = cluster.topic("spread", QUEUES)
    first, second = cluster.masters
    cluster.admin(f"updateTopic -b {second.address} -t {topic} -r {MORE_QUEUES} -w {MORE_QUEUES}")
    expected = {f"{first.name}:{queue}" for queue in range(QUEUES)}
    expected |= {f"{second.name}:{queue}" for queue in range(MORE_QUEUES)}
    wait_for(lambda: cluster.admin(f"topicRoute -t {topic}").count(str(MORE_QUEUES)) >= 2, "the larger route", 30)
    used = 0
    for judge in cluster.judges:
        sent = judge.send(topic, 10 * len(expected))
        sent.assert_all_sent()
        assert set(sent.queues) == expected, f"{judge.client} used {sorted(sent.queues)}"
        judge.receive(topic, used + 10 * len(expected))
        used += 10 * len(expected)
    return {"queues": len(expected), "sent": used}


def survives_a_master(cluster: Cluster) -> Figures:
    """One master is killed under load: no send fails for good, and what it held arrives after its restart."""
    topic = cluster.topic("death", QUEUES)
    victim = cluster.masters[0]
    # The Go client goes on to the next queue when a send fails, be it one of the same dead master: let it try them all.
    with Load(
        cluster.judges, topic, producers=PRODUCERS, consumers=CONSUMERS, route_ms=ROUTE_MS, retries=QUEUES + 1
    ) as load:
        load.advance()
        victim.kill()
        load.advance(consuming=False)
        late = cluster.judges[0].subscribe(topic)
        late.collect(1)
        held = {delivery.broker for delivery in late.so_far().deliveries}
        assert held == {cluster.masters[1].name}, f"a group that began meanwhile got messages of {held}"
        victim.start()
        load.advance()
        findings = load.finish()
        assert not findings.broken, findings.broken
        errors = [error for one in load.produced for error in one.errors]
        assert findings.failed == 0, f"{findings.failed} sends failed: {errors[:3]}"
        late.collect(len({digest for one in load.produced for digest in one.by_digest}))
        assert {delivery.broker for delivery in late.so_far().deliveries} == {m.name for m in cluster.masters}
        late.close()
        return findings.figures()


def keeps_strict_order(cluster: Cluster) -> Figures:
    """No shard of an ordered topic moves when its master dies: its sends fail, the others go on, in order."""
    topic = cluster.topic("strict", QUEUES, order=True)
    victim = cluster.masters[0]
    assert victim.name in cluster.admin(f"updateOrderConf -t {topic} -m get")
    with Load(cluster.judges, topic, producers=2, consumers=2, ordered=True, shards=SHARDS, route_ms=ROUTE_MS) as load:
        load.advance()
        victim.kill()
        load.advance(consuming=False)
        victim.start()
        load.advance()
        findings = load.finish()
        assert not findings.broken, findings.broken
        assert findings.failed > 0, "no send to the dead master failed: it must have gone elsewhere"
        moved = [complaint for one in load.produced for complaint in _moved(one)]
        breaks = [complaint for one in load.received for complaint in order_breaks(one)]
        assert not moved, moved[:5]
        assert not breaks, breaks[:5]
        return {**findings.figures(), "order_breaks": len(breaks), "moved_shards": len(moved)}


def outlives_name_servers(cluster: Cluster) -> Figures:
    """All name servers die: running clients go on. One comes back empty and is told everything in one period."""
    topic = cluster.topic("nameless", QUEUES)
    with Load(cluster.judges, topic, producers=2, consumers=2, route_ms=ROUTE_MS) as load:
        load.advance()
        for server in cluster.name_servers:
            server.kill()
        load.advance()
        load.run_for(2 * ROUTE_MS / 1000)
        load.advance()
        began = time.monotonic()
        cluster.name_servers[0].start()
        cluster.wait_routed(topic, REGISTRATION_MS / 1000 + REGISTRATION_SLACK_S)
        seconds = time.monotonic() - began
        load.advance()
        findings = load.finish()
    cluster.name_servers[1].start()
    cluster.wait_routed(topic)
    assert not findings.broken, findings.broken
    assert findings.failed == 0, f"{findings.failed} sends failed without name servers"
    return {**findings.figures(), "routes_back_s": round(seconds, 1)}


def _moved(produced: Produced) -> list[str]:
    """Shards of a producer that went to more than one queue."""
    queues: dict[int, set[str]] = defaultdict(set)
    for number, place in produced.acks:
        queues[number % SHARDS].add(f"{place.broker}:{place.queue}")
    return [f"shard {shard} went to {sorted(found)}" for shard, found in queues.items() if len(found) > 1]


def order_breaks(received: ReceiveReport) -> list[str]:
    """Messages that a consumer was given for the first time after a later one of the same queue."""
    highest: dict[str, int] = {}
    seen: dict[str, set[int]] = defaultdict(set)
    breaks = []
    for delivery in received.deliveries:
        queue = f"{delivery.broker}:{delivery.queue}"
        if delivery.offset not in seen[queue] and delivery.offset < highest.get(queue, -1):
            breaks.append(f"{queue} offset {delivery.offset} after {highest[queue]}")
        seen[queue].add(delivery.offset)
        highest[queue] = max(highest.get(queue, -1), delivery.offset)
    return breaks


CHECKS = (spreads, survives_a_master, keeps_strict_order, outlives_name_servers)


def names(checks: Sequence[object] = CHECKS) -> list[str]:
    """The names of the checks."""
    return [getattr(check, "__name__", "") for check in checks]
