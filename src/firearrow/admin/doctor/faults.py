"""The faults of a cluster, found in a snapshot. Pure: every judge is a function from a snapshot to findings."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from firearrow.admin.doctor.snapshot import ClusterSnapshot, GroupReport
from firearrow.model.flags import PERM_WRITE
from firearrow.runtime.host import advice

ERROR: Final = "error"
WARNING: Final = "warning"

CLOCK_MS: Final = 5_000
"""Clocks may differ so much: brokers tell their time in whole seconds, and an answer takes time."""
DISK_WARNING: Final = 0.75
"""``diskMaxUsedSpaceRatio``: brokers delete expired files at any hour."""
DISK_FORCED: Final = 0.85
"""``diskSpaceCleanForciblyRatio``: brokers delete files before their time."""
DISK_ERROR: Final = 0.90
"""Brokers refuse messages from here on."""
STEP_MS: Final = 100.0
"""A broker that answers nobody for so long is seen by its clients; 20 ms are the aim."""
BEHIND_BYTES: Final = 64 << 20
STUCK_MS: Final = 5 * 60_000
DEAD_LETTER_MS: Final = 3_600_000
MAP_COUNT: Final = 655_360


class Finding(Struct, frozen=True, order=True):
    """A fault: how bad, its name, whom it concerns, what is the case, what to do."""

    severity: str
    name: str
    about: str
    what: str
    next: str


def judge(seen: ClusterSnapshot) -> list[Finding]:
    """Return all findings, errors first."""
    return sorted(finding for judged in JUDGES for finding in judged(seen))


def _name_servers(seen: ClusterSnapshot) -> Iterator[Finding]:
    for server in seen.name_servers:
        if server.fault:
            rest = "the others answer, but" if len(seen.name_servers) > 1 else "so"
            yield Finding(
                ERROR,
                "name-server-dead",
                server.address,
                f"it does not answer: {server.fault}; {rest} changes of topics wait for it",
                "start it, or take it out of the list of every client and broker",
            )
    alive = [server for server in seen.name_servers if not server.fault]
    known = frozenset[str]().union(*(server.brokers for server in alive))
    for server in alive:
        if missing := sorted(known - server.brokers):
            yield Finding(
                ERROR,
                "name-servers-disagree",
                server.address,
                f"it does not know {', '.join(missing)}, which another name server knows",
                "give those brokers all name servers (namesrvAddr), and check that they reach this one",
            )


def _reach(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        member = broker.state.member
        if broker.state.fault:
            yield Finding(
                ERROR,
                "broker-unreachable",
                f"{member.name} {member.address}",
                f"it is registered, but cannot be reached from here: {broker.state.fault}",
                "let it advertise an address that clients reach (brokerIP1, --advertise), or open the way there",
            )
    masters = {broker.state.member.name for broker in seen.brokers if broker.state.member.is_master}
    for name in sorted({broker.state.member.name for broker in seen.brokers} - masters):
        yield Finding(
            ERROR,
            "master-missing",
            name,
            "only slaves are registered, so it takes no messages",
            "start its master, or elect one: firearrow failover elect",
        )


def _clocks(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        ahead = broker.clock_ahead_ms
        if ahead is not None and abs(ahead) > CLOCK_MS:
            side = "ahead of" if ahead > 0 else "behind"
            yield Finding(
                WARNING,
                "clock-skew",
                broker.state.member.name,
                f"its clock is {abs(ahead) / 1000:.0f} s {side} that of this host",
                "run chrony or ntpd on both; delays, retention and searches by time go by these clocks",
            )


def _disks(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        ratio = broker.state.disk_ratio
        if ratio >= DISK_WARNING:
            yield Finding(
                ERROR if ratio >= DISK_ERROR else WARNING,
                "disk-nearly-full",
                broker.state.member.name,
                f"its disk is {ratio:.0%} full; it {_at_such_use(ratio)}",
                "add space, or keep messages for less time (fileReservedTime)",
            )


def _stores(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        if broker.state.refusal and broker.state.disk_ratio < DISK_ERROR:
            yield Finding(
                ERROR,
                "store-refuses",
                broker.state.member.name,
                f"it takes no messages: {broker.state.refusal}",
                "look at its disk (dmesg), then restart it; do not restore its write permission before",
            )


def _steps(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        if broker.state.longest_step_ms >= STEP_MS:
            yield Finding(
                WARNING,
                "loop-held",
                broker.state.member.name,
                f"since its start a step has held its loop, and every client waited: {broker.state.longest_step}",
                "see firearrow_share_holds_total and the lines of its log that say 'held the loop'; report the step",
            )


def _at_such_use(ratio: float) -> str:
    """Return what a broker does at such a use of its disk, by the levels of its settings as they come."""
    if ratio >= DISK_ERROR:
        return "refuses messages"
    return "deletes files before their time" if ratio >= DISK_FORCED else "deletes expired files at any hour"


def _versions(seen: ClusterSnapshot) -> Iterator[Finding]:
    versions = sorted({broker.state.version for broker in seen.brokers if broker.state.version})
    if len(versions) > 1:
        old = [each.state.member.name for each in seen.brokers if each.state.version == versions[0]]
        yield Finding(
            WARNING,
            "version-mix",
            ", ".join(versions),
            f"brokers have different versions; {versions[0]} on {', '.join(sorted(set(old)))}",
            "end the upgrade: clients get what the oldest broker can do",
        )


def _groups(seen: ClusterSnapshot) -> Iterator[Finding]:
    for group in seen.groups:
        if group.disagreement:
            yield Finding(
                ERROR,
                "subscriptions-differ",
                group.name,
                f"members of one group subscribe differently: {group.disagreement}",
                "give all members the same topics and expressions, or groups of their own: messages are lost to some",
            )
        if not group.is_enabled:
            yield Finding(
                WARNING,
                "group-disabled",
                group.name,
                "consuming is switched off for it",
                f"firearrow group update {group.name} --enable",
            )
        yield from _members(group, seen.now_ms)


def _members(group: GroupReport, now_ms: int) -> Iterator[Finding]:
    for member, why in group.silent.items():
        yield Finding(
            WARNING,
            "member-silent",
            f"{group.name} {member}",
            f"it is connected and does not answer: {why}",
            "look at its process: it may hang, or be older than 3.1.8",
        )
    for queue in group.queues:
        place = f"{queue.topic} {queue.broker}:{queue.queue}"
        since_ms = now_ms - queue.last_consume_ms
        if queue.lag and queue.member and queue.cached and since_ms > STUCK_MS:
            yield Finding(
                ERROR,
                "member-stuck",
                f"{group.name} {queue.member}",
                f"it holds {queue.cached} messages of {place} and has ended none for {since_ms // 60_000} minutes",
                "look where its handler waits, then restart it; its queues go to other members",
            )
        if queue.lag and not queue.member and group.members and not group.silent and not group.is_broadcasting:
            yield Finding(
                WARNING,
                "queue-without-member",
                f"{group.name} {place}",
                f"{queue.lag} messages wait and no member holds the queue",
                "check that every member subscribes to the topic, and that all use one strategy to divide queues",
            )


def _strict_order(seen: ClusterSnapshot) -> Iterator[Finding]:
    off = [each.address for each in seen.name_servers if each.allows_strict_order is False]
    wanted = [each.name for each in seen.topics if each.wants_strict_order or each.order_text]
    if off and wanted:
        yield Finding(
            ERROR,
            "strict-order-without-switch",
            ", ".join(wanted[:5]),
            f"strict order is set, but name server {off[0]} does not tell it to clients (orderMessageEnable=false)",
            "firearrow nameserver config set orderMessageEnable=true",
        )


def _hidden_queues(seen: ClusterSnapshot) -> Iterator[Finding]:
    for topic in seen.topics:
        for broker, groups in sorted(topic.hidden.items()):
            for each in groups:
                numbers = ", ".join(map(str, each.queues))
                yield Finding(
                    WARNING,
                    "messages-in-hidden-queues",
                    f"{topic.name} on {broker}",
                    f"group {each.group} has not consumed {each.messages} messages of queues {numbers}, and cannot: "
                    "the topic has fewer read queues now",
                    f"firearrow topic update {topic.name} --read-queues {max(each.queues) + 1}, until the group has "
                    "consumed them",
                )


def _permissions(seen: ClusterSnapshot) -> Iterator[Finding]:
    wiped: dict[str, int] = {}
    for topic in seen.topics:
        for broker, perm in topic.perms.items():
            if perm & PERM_WRITE and not topic.routed_perms.get(broker, PERM_WRITE) & PERM_WRITE:
                wiped[broker] = wiped.get(broker, 0) + 1
    refusing = {broker.state.member.name for broker in seen.brokers if broker.state.refusal}
    for broker, topics in sorted(wiped.items()):
        if broker in refusing:  # it has taken its permission itself
            continue
        yield Finding(
            WARNING,
            "write-permission-wiped",
            broker,
            f"name servers send producers of {topics} topics elsewhere: its write permission was taken",
            f"firearrow broker restore-write {broker}, when its maintenance is over",
        )


def _missing_brokers(seen: ClusterSnapshot) -> Iterator[Finding]:
    there = {broker.state.member.name for broker in seen.brokers}
    for topic in seen.topics:
        ordered = {part.rpartition(":")[0] for part in topic.order_text.split(";") if part}
        if missing := sorted((ordered | set(topic.routed_perms)) - there):
            yield Finding(
                ERROR,
                "topic-on-missing-broker",
                topic.name,
                f"its queues on {', '.join(missing)} cannot be reached: no such broker is registered",
                "start the broker, or take it out of the topic: firearrow topic update, firearrow nameserver kv",
            )


def _dead_letters(seen: ClusterSnapshot) -> Iterator[Finding]:
    for each in seen.dead_letters:
        if each.messages and seen.now_ms - each.last_ms < DEAD_LETTER_MS:
            yield Finding(
                WARNING,
                "dead-letters-growing",
                each.group,
                f"it has {each.messages} dead letters, the last {(seen.now_ms - each.last_ms) // 60_000} minutes ago",
                f"firearrow dlq show {each.group}; mend the handler, then firearrow dlq redrive",
            )


def _replication(seen: ClusterSnapshot) -> Iterator[Finding]:
    for broker in seen.brokers:
        for slave, behind in broker.slaves_behind.items():
            if behind > BEHIND_BYTES:
                yield Finding(
                    ERROR,
                    "slave-behind",
                    f"{broker.state.member.name} {slave}",
                    f"the slave is {behind >> 20} MiB behind: as much is lost with the master's disk",
                    "check disk and network of the slave",
                )
        if broker.state.behind_bytes > BEHIND_BYTES:
            yield Finding(
                WARNING,
                "dispatch-behind",
                broker.state.member.name,
                f"{broker.state.behind_bytes >> 20} MiB of its log are stored and not in queues yet",
                "check its disk; consumers get these messages when queues are written",
            )


def _host(seen: ClusterSnapshot) -> Iterator[Finding]:
    host = seen.host
    for each in advice(host):
        yield Finding(WARNING, each.name, "this host", each.what, each.next)
    if host.map_count is not None and host.map_count < MAP_COUNT:
        yield Finding(
            WARNING,
            "few-mappings",
            "this host",
            f"vm.max_map_count is {host.map_count}; Apache's broker maps every file and needs {MAP_COUNT}",
            "sysctl vm.max_map_count=655360; only if Apache's broker runs here",
        )


JUDGES: Final[Sequence[Callable[[ClusterSnapshot], Iterator[Finding]]]] = (
    _name_servers,
    _reach,
    _clocks,
    _disks,
    _stores,
    _steps,
    _versions,
    _groups,
    _strict_order,
    _hidden_queues,
    _permissions,
    _missing_brokers,
    _dead_letters,
    _replication,
    _host,
)
