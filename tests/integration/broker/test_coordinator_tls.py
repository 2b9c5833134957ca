"""etcd that takes only clients with a certificate: a group elects its master there, and wrong certificates are told."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from firearrow.errors import CoordinatorFailed
from firearrow.runtime.coordinator.etcd import Etcd
from firearrow.runtime.tls_settings import ClientTls
from firearrow.testing.certificates import self_signed
from firearrow.testing.conformance.coordinator import COORDINATOR_CHECKS, CoordinatorCheck
from tests.integration.broker.replicas import EtcdMachines, Group, Senders, stored

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMachines]:
    """Three machines of etcd; their certificate is its own authority, and that of their clients."""
    files = self_signed(str(tmp_path_factory.mktemp("tls")), name="etcd")
    with EtcdMachines((Path(files.certificate_path), Path(files.key_path), Path(files.certificate_path))) as running:
        yield running


@pytest.mark.parametrize("check", COORDINATOR_CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_a_coordinator_are_kept_over_tls(check: CoordinatorCheck, machines: EtcdMachines) -> None:
    doors = list[Etcd]()

    def member(_number: int) -> Etcd:
        doors.append(machines.door(check.__name__))
        return doors[-1]

    async def run() -> None:
        try:
            await check(member)
        finally:
            for door in doors:
                await door.close()

    asyncio.run(run())


async def failure(machines: EtcdMachines, tls: ClientTls) -> str:
    door = Etcd(machines.address.split(";"), "cluster", "told", lease_s=2, tls=tls)
    try:
        with pytest.raises(CoordinatorFailed) as caught:
            await door.read()
    finally:
        await door.close()
    return str(caught.value)


def test_a_certificate_that_is_missing_or_unknown_is_told(machines: EtcdMachines, tmp_path: Path) -> None:
    known = machines.client_tls
    assert known is not None
    other = self_signed(str(tmp_path), name="other")
    strange = replace(known, certificate_path=other.certificate_path, key_path=other.key_path)
    for wrong in (replace(known, certificate_path="", key_path=""), strange, replace(known, trust_path="")):
        assert "the files of coordinatorTrustPath" in asyncio.run(failure(machines, wrong))


def test_a_group_elects_its_master_over_tls(machines: EtcdMachines) -> None:
    tls = machines.client_tls
    assert tls is not None
    settings = {
        "coordinatorTrustPath": tls.trust_path,
        "coordinatorCertificatePath": tls.certificate_path,
        "coordinatorKeyPath": tls.key_path,
    }

    async def story(group: Group) -> None:
        async with Senders(group.names.address, producers=1) as senders:
            before = await group.now()
            await asyncio.to_thread(group.brokers[before.master].kill)
            await senders.more(50)
            after = await group.now()
            assert after.epoch > before.epoch
        found = await stored(group.names.address)
        assert [body for body in senders.acked if body not in found] == []

    with Group(machines, settings) as group:
        asyncio.run(story(group))
        assert f'"master":{group.until(lambda _: True, "a state").master}' in group.done("show")
