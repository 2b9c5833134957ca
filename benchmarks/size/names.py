"""Very many topics at a name server: whether it has all of them, and still has them when the lease is over.

Asked of our name server and of Apache's, with our broker behind each. Lists and routes are read with the plain client
that judges use. Our own name server is pinged as brokers are.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.size.brokers import make_topics, topic_name
from benchmarks.size.probe import Probe, Seen, run
from benchmarks.size.table import HOLD_MS, Row, at_most
from benchmarks.versus.contestants import FireArrowInEarnest
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from judges import ApacheNameServer, FireArrowNameServer
from judges.wire import GET_ROUTE, SUCCESS, ask

SMALL = 10
ROUTES = 200
"""Topics whose routes are asked for, spread over all."""
KNOWN_WITHIN_S = 120.0
LEASE_S = 130.0
"""A little longer than name servers keep a broker that says nothing."""
LIST_TIMEOUT_S = 30.0
NameServer = FireArrowNameServer | ApacheNameServer


@contextmanager
def _broker_at(names: NameServer, topics: int) -> Iterator[FireArrowInEarnest]:
    with FireArrowInEarnest(name_servers=[names.address], settings={}) as broker:
        run(make_topics(broker.port, range(topics)))
        yield broker


def _unlisted(names: NameServer, topics: int) -> int:
    """Return the number of topics that are not in the list of all."""
    answer = ask(names.address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_seconds=LIST_TIMEOUT_S)
    listed = set(json.loads(answer.body)["topicList"])
    return sum(topic_name(number) not in listed for number in range(topics))


def _unrouted(names: NameServer, topics: int, address: str) -> int:
    """Of some topics, how many lead to no broker."""
    missing = 0
    for number in range(0, topics, max(topics // ROUTES, 1)):
        answer = ask(names.address, GET_ROUTE, {"topic": topic_name(number)})
        missing += answer.code != SUCCESS or address.encode() not in answer.body
    return missing


def _known_after_s(names: NameServer, topics: int) -> float:
    began = time.perf_counter()
    while _unlisted(names, topics) and time.perf_counter() - began < KNOWN_WITHIN_S:
        time.sleep(0.5)
    return time.perf_counter() - began


def _look(names: NameServer, topics: int, lease_s: float) -> tuple[float, int, Seen]:
    """Seconds until all are known; how many are unknown after a lease; the broker's longest hold meanwhile."""
    with _broker_at(names, topics) as broker:
        known_s = _known_after_s(names, topics)
        seen = run(Probe(broker.port, broker.pid).watch(lease_s))
        return known_s, _unlisted(names, topics) + _unrouted(names, topics, broker.address), seen


def _names_seen(topics: int, seconds: float) -> Seen:
    """The time that a client waits for a route of our name server while all brokers register."""
    with FireArrowNameServer(arguments=["--log-level", "ERROR"]) as names, _broker_at(names, topics):
        ping = GetRouteInfoByTopic(topic=topic_name(0))
        return run(Probe(names.port, names.pid, ping).watch(seconds))


def _holds(what: str, small: Seen, large: Seen) -> Iterator[Row]:
    yield at_most(what, "ms", small.hold_ms, large.hold_ms, HOLD_MS)
    yield at_most(f"{what}, CPU", "ms", small.hold_cpu_ms, large.hold_cpu_ms, HOLD_MS)


def of_names(topics: int, patience: float = 1.0) -> Iterator[Row]:
    """A broker with very many topics beside one with ten, at our name server and at Apache's."""
    lease_s = LEASE_S * patience
    for name, kind in (("ours", FireArrowNameServer), ("Apache 5.5.0", ApacheNameServer)):
        found = []
        for count, watch_s in ((SMALL, lease_s / 4), (topics, lease_s)):
            with kind() as names:
                found.append(_look(names, count, watch_s))
        (small_s, small_missing, small), (large_s, missing, large) = found
        at = f"{topics:,} topics at a name server, {name}"
        yield at_most(f"{at}: known after", "s", small_s, large_s, KNOWN_WITHIN_S)
        yield at_most(f"{at}: unknown when a lease is over", "", small_missing, missing, 0)
        yield from _holds(f"{at}: longest hold of the broker", small, large)
    small, large = (_names_seen(count, lease_s / 4) for count in (SMALL, topics))
    yield from _holds(f"{topics:,} topics at a name server, ours: its longest hold", small, large)
