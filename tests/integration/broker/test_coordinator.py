"""etcd keeps the promises of a coordinator: Debian's etcd-server, three machines."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from typer.testing import CliRunner

from campaigns.failover.etcd_cluster import EtcdCluster
from firearrow.broker.failover.group_values import encode
from firearrow.cli.failover.commands import failover
from firearrow.model.group_state import GroupState
from firearrow.runtime.coordinator.etcd import Etcd
from firearrow.testing.conformance.coordinator import COORDINATOR_CHECKS, CoordinatorCheck

pytestmark = pytest.mark.real
GROUPS = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as running:
        yield running


async def run(check: CoordinatorCheck, addresses: list[str]) -> None:
    name, doors = f"group{next(GROUPS)}", list[Etcd]()

    def member(number: int) -> Etcd:
        # Every member begins with another machine.
        turned = addresses[number % len(addresses) :] + addresses[: number % len(addresses)]
        doors.append(Etcd(turned, "cluster", name, lease_s=2))
        return doors[-1]

    try:
        await check(member)
    finally:
        for door in doors:
            await door.close()


@pytest.mark.parametrize("check", COORDINATOR_CHECKS, ids=lambda check: check.__name__)
def test_etcd(check: CoordinatorCheck, cluster: EtcdCluster) -> None:
    asyncio.run(run(check, cluster.addresses))


async def keep(addresses: list[str], name: str, group: GroupState) -> None:
    door = Etcd(addresses, "DefaultCluster", name, lease_s=2)
    try:
        assert await door.swap(None, encode(group))
    finally:
        await door.close()


def test_the_commands_show_a_group_and_elect_by_name(cluster: EtcdCluster) -> None:
    def said(command: str, *more: str) -> tuple[int, str]:
        where = ["--coordinator", ";".join(cluster.addresses), "--broker-name", "told"]
        done = CliRunner().invoke(failover, [command, *where, *more])
        return done.exit_code, done.output

    status, text = said("show")
    assert (status, "does not exist" in text) == (1, True)
    asyncio.run(keep(cluster.addresses, "told", GroupState(4, 1, (1, 2), 9, 2)))
    assert '"epoch":4,"master":1,"iss":[1,2]' in said("show")[1]
    status, text = said("elect", "--replica", "3")
    assert status == 1, "nobody has said yes"
    assert "replica 3 does not say what it has: everything that it lacks is lost" in text
    assert "replica 2 leads epoch 5" in said("elect", "--replica", "2", "--yes")[1]
    assert "replica 3 leads epoch 12" in said("elect", "--replica", "3", "--yes", "--epoch", "12")[1]
    assert '"epoch":12,"master":3' in said("show")[1]
    assert '"by_name":true' in said("show")[1]


def test_an_etcd_that_is_not_there_is_told_in_a_line() -> None:
    where = ["--coordinator", "http://127.0.0.1:9", "--broker-name", "told"]
    done = CliRunner().invoke(failover, ["show", *where])
    assert done.exit_code == 1
    assert "etcd at http://127.0.0.1:9 did not answer" in done.output
    assert "may have happened" not in done.output, "a question changes nothing"
    assert len(done.output.splitlines()) == 1
