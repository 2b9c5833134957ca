"""Faults planted in a snapshot are found and named, each alone; a healthy cluster has none."""

from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.admin.broker_state import BrokerState
from firearrow.admin.brokers import BrokerMember
from firearrow.admin.doctor.collect import clock_ahead, difference
from firearrow.admin.doctor.faults import ERROR, judge
from firearrow.admin.doctor.snapshot import (
    BrokerReport,
    ClusterSnapshot,
    DeadLetterReport,
    GroupReport,
    HiddenQueueReport,
    NameServerReport,
    QueueReport,
    TopicReport,
)
from firearrow.admin.group_members import Holders
from firearrow.runtime.host import DIRTY_BYTES, HostLimits, this_host

NOW = 1_800_000_000_000
A = BrokerMember("c", "broker-a", 0, "10.0.0.1:10911")
B = BrokerMember("c", "broker-b", 0, "10.0.0.2:10911")
BROKERS = frozenset({A.address, B.address})
QUEUE = QueueReport(
    topic="orders", broker="broker-a", queue=0, lag=7, member="m1", cached=3, last_consume_ms=NOW - 1000
)
GROUP = GroupReport(name="billing", members=("m1", "m2"), queues=(QUEUE,))
TOPIC = TopicReport(
    name="orders", perms={"broker-a": 6, "broker-b": 6}, routed_perms={"broker-a": 6, "broker-b": 6}, order_text=""
)
HEALTHY = ClusterSnapshot(
    now_ms=NOW,
    name_servers=tuple(
        NameServerReport(address=f"10.0.0.{number}:9876", brokers=BROKERS, allows_strict_order=False)
        for number in (8, 9)
    ),
    brokers=(
        BrokerReport(state=BrokerState(A, version="5.5.0"), clock_ahead_ms=-900, slaves_behind={"10.0.0.3": 4096}),
        BrokerReport(state=BrokerState(B, version="5.5.0"), clock_ahead_ms=200),
    ),
    topics=(TOPIC,),
    groups=(GROUP,),
    dead_letters=(DeadLetterReport(group="billing", messages=3, last_ms=NOW - 86_400_000),),
    host=HostLimits(
        descriptors=655_350,
        swappiness=1,
        map_count=655_360,
        dirty_bytes=DIRTY_BYTES,
        zone_reclaim=0,
        is_clock_kept=True,
    ),
)


def with_broker(**changes: Any) -> ClusterSnapshot:
    first, second = HEALTHY.brokers
    seen = {name: value for name, value in changes.items() if name in ("clock_ahead_ms", "slaves_behind")}
    state = replace(first.state, **{name: value for name, value in changes.items() if name not in seen})
    return replace(HEALTHY, brokers=(replace(first, state=state, **seen), second))


def with_server(**changes: Any) -> ClusterSnapshot:
    first, second = HEALTHY.name_servers
    return replace(HEALTHY, name_servers=(replace(first, **changes), second))


def with_group(**changes: Any) -> ClusterSnapshot:
    return replace(HEALTHY, groups=(replace(GROUP, **changes),))


def with_queue(**changes: Any) -> ClusterSnapshot:
    return with_group(queues=(replace(QUEUE, **changes),))


def with_topic(**changes: Any) -> ClusterSnapshot:
    return replace(HEALTHY, topics=(replace(TOPIC, **changes),))


PLANTED = {
    "name-server-dead": with_server(fault="connection refused", brokers=frozenset()),
    "name-servers-disagree": with_server(brokers=frozenset({A.address})),
    "broker-unreachable": with_broker(fault="no route to host", version=""),
    "master-missing": with_broker(member=BrokerMember("c", "broker-a", 1, "10.0.0.1:10911")),
    "clock-skew": with_broker(clock_ahead_ms=-7000),
    "disk-nearly-full": with_broker(disk_ratio=0.76),
    "store-refuses": with_broker(refusal="the store takes no messages since a write or sync failed"),
    "loop-held": with_broker(longest_step="140.2 ms of CPU, share lookup, query.QueryHandlers._by_place"),
    "version-mix": with_broker(version="4.9.7"),
    "subscriptions-differ": with_group(disagreement="m1 to A, m2 to B"),
    "group-disabled": with_group(is_enabled=False),
    "member-silent": with_group(silent={"m2": "timed out"}),
    "member-stuck": with_queue(last_consume_ms=NOW - 600_000),
    "queue-without-member": with_queue(member="", cached=0),
    "strict-order-without-switch": with_topic(wants_strict_order=True),
    "messages-in-hidden-queues": with_topic(hidden={"broker-a": (HiddenQueueReport("billing", (2, 3), 40),)}),
    "write-permission-wiped": with_topic(routed_perms={"broker-a": 6, "broker-b": 4}),
    "topic-on-missing-broker": with_topic(routed_perms={"broker-a": 6, "broker-b": 6, "broker-c": 6}),
    "dead-letters-growing": replace(
        HEALTHY, dead_letters=(DeadLetterReport(group="billing", messages=3, last_ms=NOW - 60_000),)
    ),
    "slave-behind": with_broker(slaves_behind={"10.0.0.3": 1 << 30}),
    "dispatch-behind": with_broker(behind_bytes=1 << 30),
    "few-descriptors": replace(HEALTHY, host=HostLimits(descriptors=1024)),
    "swaps-early": replace(HEALTHY, host=HostLimits(swappiness=60)),
    "few-dirty-pages": replace(HEALTHY, host=HostLimits(dirty_bytes=DIRTY_BYTES - 1)),
    "reclaims-zones": replace(HEALTHY, host=HostLimits(zone_reclaim=1)),
    "clock-not-kept": replace(HEALTHY, host=HostLimits(is_clock_kept=False)),
    "few-mappings": replace(HEALTHY, host=HostLimits(map_count=65_530)),
}


def test_a_healthy_cluster_has_no_fault() -> None:
    assert judge(HEALTHY) == []


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_and_named_alone(fault: str) -> None:
    (found,) = judge(PLANTED[fault])
    assert found.name == fault
    assert found.about
    assert found.what
    assert found.next


def test_errors_come_before_warnings_and_a_full_disk_is_one() -> None:
    found = judge(replace(with_broker(disk_ratio=0.95), host=HostLimits(descriptors=1024)))
    assert [(each.name, each.severity) for each in found] == [
        ("disk-nearly-full", ERROR),
        ("few-descriptors", "warning"),
    ]


def test_this_host_is_read() -> None:
    found = this_host()
    assert found.swappiness is not None
    assert found.dirty_bytes
    assert found.is_clock_kept is not None


def test_a_member_that_has_nothing_to_do_or_consumes_is_not_stuck() -> None:
    assert judge(with_queue(lag=0, last_consume_ms=NOW - 600_000)) == []
    assert judge(with_queue(cached=0, last_consume_ms=NOW - 600_000)) == []


def test_the_order_text_of_a_broker_that_is_gone_is_a_fault() -> None:
    (found,) = judge(
        replace(
            with_topic(order_text="broker-a:4;broker-z:4"),
            name_servers=tuple(replace(each, allows_strict_order=True) for each in HEALTHY.name_servers),
        )
    )
    assert found.name == "topic-on-missing-broker"
    assert "broker-z" in found.what


def test_the_clock_of_a_broker_is_its_start_and_the_time_since() -> None:
    state = BrokerState(A, booted_ms=NOW - 90_061_000)
    assert clock_ahead(state, "[ 1 days, 1 hours, 1 minutes, 11 seconds ]", NOW) == 10_000
    assert clock_ahead(state, "since yesterday", NOW) is None


def test_members_that_subscribe_differently_are_named() -> None:
    same = {"orders": "*", "%RETRY%billing": "*"}
    assert difference(Holders(subscriptions={"m1": same, "m2": {"orders": "*"}})) == ""
    assert difference(Holders(subscriptions={"m1": same, "m2": {"orders": "A"}})) == (
        "m1 to orders (*), m2 to orders (A)"
    )


@pytest.mark.parametrize(
    ("ratio", "what"),
    [(0.8, "deletes expired files at any hour"), (0.86, "deletes files before their time"), (0.9, "refuses messages")],
)
def test_what_is_said_of_a_disk_is_what_brokers_do(ratio: float, what: str) -> None:
    (found,) = judge(with_broker(disk_ratio=ratio))
    assert what in found.what


def test_a_broker_that_has_taken_its_own_permission_is_not_told_to_take_it_back() -> None:
    refusing = with_broker(refusal="a sync failed").brokers
    (found,) = judge(replace(with_topic(routed_perms={"broker-a": 4, "broker-b": 6}), brokers=refusing))
    assert (found.name, found.severity) == ("store-refuses", ERROR)
