"""The audit log of a running broker: what is in it, after kills, on a full disk, and in how many files."""

import asyncio
import logging
from errno import ENOSPC

import msgspec
import pytest
from msgspec.structs import replace

from firearrow.access.audit_lines import AuditVerification, Event, verify
from firearrow.access.audit_log import ALLOWED, DAMPED, DAMPED_S, DIRECTORY, REFUSED, SYNC_S, WAITING_MAX, AuditLog
from firearrow.access.refusal_rate import SOURCE_BURST, SOURCES_MAX, RefusalRate
from firearrow.access.settings import AccessConfig, AuditScope
from firearrow.errors import DiskFull
from firearrow.protocol.bodies.admin.auth import UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.requests.admin.auth import AuthUpdateUser
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.message.query import ViewMessageById
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.door import Disk
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.kit import InstantFile, fresh_image
from tests.unit.access.servers import ALICE, CONFIG, ROOT, Place, refusal, served
from tests.unit.broker.whole import Client, a_send
from tests.unit.store.sidecars.test_copies import RefusingDisk

BODY_MARKER = b"marker-of-a-body"


async def files_of(disk: Disk, which: str = ALLOWED) -> list[tuple[str, bytes]]:
    names = [name for name in await disk.list(DIRECTORY) if name.startswith(which)]
    return [(name, await disk.read_whole(f"{DIRECTORY}/{name}")) for name in names]


async def events_of(disk: Disk, which: str = ALLOWED) -> list[tuple[object, ...]]:
    """The user, action, resource, decision and reason of every event."""
    found: list[tuple[object, ...]] = []
    for _, data in await files_of(disk, which):
        for line in data.splitlines():
            event = msgspec.json.decode(line)
            if "what" in event:
                found.append((event["who"], event["what"], event["on"], event["allowed"], event["why"]))
    return found


async def act(place: Place) -> tuple[Client, Client]:
    """Do what has to be in the log, and what has not."""
    root, alice = place.client(ROOT), await place.make(ALICE, ("Topic:orders", "Pub", "Allow"))
    await place.allow("alice", "Topic:bills", "All", "Deny")
    await root.ask(AuthUpdateUser(username="alice"), encode_body(UserInfo(password="marker-of-alice")))
    await alice.send("orders", BODY_MARKER)
    assert (await refusal(alice, a_send("bills"), BODY_MARKER))[0] == 16
    assert (await refusal(alice, a_send("others"), BODY_MARKER))[0] == 16
    assert (await refusal(place.client(None), a_send("orders"), BODY_MARKER))[0] == 16
    assert (await refusal(place.client(("alice", "marker-wrong")), a_send("orders"), BODY_MARKER))[0] == 16
    assert (await refusal(place.client(("mallory", "m")), a_send("orders"), BODY_MARKER))[0] == 16
    await root.ask(UpdateBrokerConfig(), b"brokerPermission=6\n")
    await root.ask(DeleteTopicInBroker(topic="orders"))
    await asyncio.sleep(0.1)
    return root, alice


SUPER = "a super user may do everything"
REFUSALS = [
    ("User:alice", "SEND_MESSAGE_V2", ["Topic:bills"], False, "Deny All on Topic:bills"),
    (
        "User:alice",
        "SEND_MESSAGE_V2",
        ["Topic:others"],
        False,
        "User:alice has no permission to access Topic:others from 10.0.0.3, no matched policies.",
    ),
    (None, "SEND_MESSAGE_V2", [], False, "username cannot be null."),
    ("User:alice?", "SEND_MESSAGE_V2", [], False, "check signature failed."),
    ("User:mallory?", "SEND_MESSAGE_V2", [], False, "User:mallory is not found."),
]
CLUSTER = ["Cluster:DefaultCluster"]
CHANGES = [
    ("User:root", "AUTH_CREATE_USER", CLUSTER, True, SUPER),
    ("User:root", "AUTH_CREATE_ACL", CLUSTER, True, SUPER),
    ("User:root", "AUTH_CREATE_ACL", CLUSTER, True, SUPER),
    ("User:root", "AUTH_UPDATE_USER", CLUSTER, True, SUPER),
    ("User:root", "UPDATE_BROKER_CONFIG", CLUSTER, True, SUPER),
    ("User:root", "DELETE_TOPIC_IN_BROKER", ["Topic:orders"], True, SUPER),
]


def test_refusals_and_changes_are_in_the_log_and_sends_are_not() -> None:
    async def main(place: Place) -> None:
        await act(place)
        assert await events_of(place.server.node.disk) == CHANGES
        assert await events_of(place.server.node.disk, REFUSED) == REFUSALS
        data = b"".join(data for _, data in await files_of(place.server.node.disk, ""))
        assert b"marker" not in data

    served(main)


def test_everything_is_in_the_log_if_the_settings_want_that() -> None:
    async def main(place: Place) -> None:
        _, alice = await act(place)
        sent = await alice.send("orders", BODY_MARKER)
        assert sent.answer is not None
        place_of_it = int(sent.answer.msg_id[-16:], 16)
        await place.allow("alice", "Topic:orders", "Get,Pub")
        await alice.ask(ViewMessageById(offset=place_of_it))
        await asyncio.sleep(0.1)
        events = await events_of(place.server.node.disk)
        allowed = ("User:alice", "SEND_MESSAGE_V2", ["Topic:orders"], True, "Allow Pub on Topic:orders")
        assert events.count(allowed) == 2
        assert set(map(str, CHANGES)) < set(map(str, events))
        assert events[-1] == (
            "User:alice",
            "VIEW_MESSAGE_BY_ID",
            ["Topic:orders"],
            True,
            "Allow Get,Pub on Topic:orders",
        )

    served(main, replace(CONFIG, audit_log=AuditScope.ALL))


def test_a_refusal_by_the_handler_is_in_the_log_too() -> None:
    async def main(place: Place) -> None:
        clerk = await place.make(("clerk", "c"), ("Cluster:DefaultCluster", "Update,Get", "Allow"))
        assert (await refusal(clerk, AuthUpdateUser(username="root"), encode_body(UserInfo(password="x"))))[0] == 16
        await asyncio.sleep(0.1)
        said = "The super user can only be update by super user"
        disk = place.server.node.disk
        let_in = ("User:clerk", "AUTH_UPDATE_USER", CLUSTER, True, "Allow Update,Get on Cluster:DefaultCluster")
        assert (await events_of(disk))[-1] == let_in
        assert (await events_of(disk, REFUSED))[-1] == ("User:clerk", "AUTH_UPDATE_USER", [], False, said)

    served(main)


def test_without_the_log_there_is_no_file() -> None:
    async def main(place: Place) -> None:
        await act(place)
        assert not place.server.node.disk.exists(DIRECTORY)

    served(main, replace(CONFIG, audit_log=AuditScope.OFF))


def test_lines_survive_a_kill_and_the_chain_goes_on() -> None:
    async def main(place: Place) -> None:
        await act(place)
        await place.server.node.crash()
        await place.server.start()
        await place.client(ROOT).ask(DeleteTopicInBroker(topic="orders"))
        await asyncio.sleep(0.1)
        disk = place.server.node.disk
        assert await events_of(disk) == [*CHANGES, CHANGES[-1]]
        found = verify(await files_of(disk))
        assert (found.faults, found.torn, found.lines) == ((), "", 1 + len(CHANGES) + 1)
        refused = verify(await files_of(disk, REFUSED))
        assert (refused.faults, refused.torn, refused.lines) == ((), "", 1 + len(REFUSALS))

    served(main)


def test_refusals_are_counted_by_reason_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main(place: Place) -> dict[str, float]:
        await act(place)
        for _ in range(5):
            await refusal(place.client(("mallory", "m")), a_send("orders"), b"x")
        metrics = place.server.broker.metrics
        assert metrics is not None
        lines = "".join(metrics.registry.text()).splitlines()
        counted = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}
        return {name: value for name, value in counted.items() if name.startswith("firearrow_access")}

    with caplog.at_level(logging.WARNING, "firearrow.access.witness"):
        counted = served(main)
    by_reason = {name.partition('reason="')[2].partition('"')[0]: value for name, value in counted.items()}
    assert {reason: value for reason, value in by_reason.items() if reason and value} == {
        "no_user": 1,
        "unknown_user": 6,
        "wrong_signature": 1,
        "no_rule": 1,
        "rule": 1,
    }
    assert not [name for name in counted if "alice" in name or "mallory" in name]
    assert [name for name in counted if "audit_lines" in name and counted[name] == len(CHANGES) + len(REFUSALS) + 5]
    records = [record for record in caplog.records if record.name == "firearrow.access.witness"]
    told = [record.getMessage() for record in records]
    assert len(told) == 5
    assert told[0].startswith("SEND_MESSAGE_V2 by User:alice from 10.0.0.3:")
    assert told[0].endswith("Topic:bills from 10.0.0.3, the decision is deny. The rule: Deny All on Topic:bills")
    assert vars(records[0])["rule"] == "Deny All on Topic:bills"


# ---- the log alone

SMALL = AccessConfig(authentication_enabled=True, audit_log_file_size=4096, audit_log_files=3)


def an_event(number: int) -> Event:
    return Event(number, "User:a", "10.0.0.7:1", "SEND_MESSAGE_V2", ("Topic:t",), allowed=True, why="x" * 50)


async def wrote(audit: AuditLog, numbers: range) -> None:
    for number in numbers:
        audit.add(an_event(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_files_have_a_size_and_the_oldest_are_removed() -> None:
    async def main(node: Node) -> AuditVerification:
        audit = AuditLog(SMALL, node.disk, node.clock)
        await audit.open()
        work = asyncio.ensure_future(audit.run())
        await wrote(audit, range(100))
        await asyncio.sleep(2 * SYNC_S)
        work.cancel()
        files = await files_of(node.disk)
        assert len(files) == 3
        assert all(len(data) < 4096 + 400 for _, data in files)
        assert audit.lines == 100
        return verify(files)

    found = World(1).run(lambda world: main(world.node("n")))
    assert found.faults == ()
    assert found.first > 1
    assert found.last > 100


def test_an_unfinished_line_is_left_where_it_is() -> None:
    async def main(node: Node) -> None:
        audit = AuditLog(SMALL, node.disk, node.clock)
        await audit.open()
        await wrote(audit, range(3))
        name, data = (await files_of(node.disk))[0]
        node.disk.open(f"{DIRECTORY}/{name}").write_at(len(data), [b'{"seq":'])
        found = verify(await files_of(node.disk))
        assert (found.faults, found.torn) == ((), f"{name}, line 5")
        again = AuditLog(SMALL, node.disk, node.clock)
        await again.open()
        await wrote(again, range(2))
        files = await files_of(node.disk)
        assert files[0] == (name, data + b'{"seq":')
        found = verify(files)
        assert (found.faults, found.torn, found.lines) == ((), "", 7)
        assert verify([(name, data), files[1]]).faults

    World(1).run(lambda world: main(world.node("n")))


@pytest.mark.parametrize("begun", [b"", b'{"seq":'])
@pytest.mark.parametrize("lines", [0, 3])
def test_the_chain_goes_on_after_a_kill_at_the_beginning_of_a_file(lines: int, begun: bytes) -> None:
    async def main(node: Node) -> None:
        number = 1
        node.disk.make_directory(DIRECTORY)
        if lines:
            audit = AuditLog(SMALL, node.disk, node.clock)
            await audit.open()
            await wrote(audit, range(lines))
            number = 2
        path = f"{DIRECTORY}/{ALLOWED}-{number:08}.jsonl"
        node.disk.open(path, create=True, private=True).write_at(0, [begun])
        found = verify(await files_of(node.disk))
        assert bool(found.faults) is not bool(lines)
        again = AuditLog(SMALL, node.disk, node.clock)
        await again.open()
        await wrote(again, range(2))
        found = verify(await files_of(node.disk))
        assert (found.faults, found.torn, found.first) == ((), "", 1)

    World(1).run(lambda world: main(world.node("n")))


def test_a_file_that_somebody_has_damaged_does_not_stop_the_start() -> None:
    async def main(node: Node) -> None:
        node.disk.make_directory(DIRECTORY)
        await node.disk.replace(f"{DIRECTORY}/audit-00000001.jsonl", b"nonsense\n")
        audit = AuditLog(SMALL, node.disk, node.clock)
        await audit.open()
        await wrote(audit, range(2))
        assert len(verify(await files_of(node.disk)).faults) >= 1
        assert len(await events_of_second(node.disk)) == 3

    async def events_of_second(disk: Disk) -> list[bytes]:
        return (await files_of(disk))[1][1].splitlines()

    World(1).run(lambda world: main(world.node("n")))


class FullDisk(RefusingDisk):
    """Has no room while ``is_full``."""

    is_full = False

    def open(self, path: str, *, create: bool = False, private: bool = False) -> InstantFile:
        file = super().open(path, create=create, private=private)
        write_at = file.write_at

        def refuse(position: int, buffers: object) -> None:
            if self.is_full:
                raise DiskFull("no room", ENOSPC)
            write_at(position, buffers)  # type: ignore[arg-type]

        file.write_at = refuse  # type: ignore[method-assign]
        return file


def test_events_that_cannot_be_written_are_counted_in_the_next_line() -> None:
    async def main() -> None:
        disk = FullDisk(fresh_image())
        audit = AuditLog(SMALL, disk, SystemClock())
        await audit.open()
        await wrote(audit, range(2))
        disk.is_full = True
        await wrote(audit, range(3))
        disk.is_full = False
        await wrote(audit, range(1))
        for number in range(WAITING_MAX + 7):
            audit.add(an_event(number))
        assert (audit.lost, audit.lines) == (10, 4)
        data = b"".join(data for _, data in await files_of(disk))
        assert b'"lost":3' in data
        assert verify(await files_of(disk)).faults == ()

    asyncio.run(main())


# ---- refusals


def test_refusals_without_end_push_out_no_line_about_a_change() -> None:
    refusals = 500

    async def main(place: Place) -> None:
        await place.make(("mallory", "m"))
        stranger = place.client((("x" * 200), "m"))
        for _ in range(refusals):
            assert (await refusal(stranger, a_send("orders"), b"x"))[0] == 16
        await asyncio.sleep(2 * DAMPED_S)
        disk = place.server.node.disk
        assert ("User:root", "AUTH_CREATE_USER", CLUSTER, True, SUPER) in await events_of(disk)
        assert verify(await files_of(disk)).faults == ()
        refused = verify(await files_of(disk, REFUSED))
        told = len(await events_of(disk, REFUSED))
        assert refused.faults == ()
        assert told < refusals
        assert refused.lost[DAMPED] == refusals - told

    served(main, replace(CONFIG, audit_log_file_size=65_536, audit_log_files=2))


def test_one_source_does_not_hide_the_refusals_of_another() -> None:
    rate = RefusalRate(0.0)
    written = [rate.passes("10.0.0.1", "authentication", 0.0) for _ in range(1000)]
    assert sum(written) == SOURCE_BURST
    assert rate.passes("10.0.0.2", "authentication", 0.0)
    assert rate.passes("10.0.0.1", "authorization", 0.0)
    assert not rate.passes("10.0.0.1", "authentication", 0.5)
    assert rate.passes("10.0.0.1", "authentication", 2.0)


def test_many_sources_share_a_bound_and_take_bounded_room() -> None:
    rate = RefusalRate(0.0)
    written = sum(rate.passes(f"10.0.{number >> 8 & 255}.{number & 255}", "x", 0.0) for number in range(65_536))
    assert written == SOURCES_MAX
    assert len(rate._sources) == SOURCES_MAX
    assert rate.passes("10.1.0.0", "x", 1000.0)
