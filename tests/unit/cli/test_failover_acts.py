"""``firearrow failover``: what may be lost, backups of directories, and mistakes in words."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from firearrow.broker.failover.group_values import GroupView, MemberFacts
from firearrow.cli.failover.backups import back_up, put_back, read_backup
from firearrow.cli.failover.commands import _in_sync, failover
from firearrow.cli.failover.losses import Replica, losses
from firearrow.cli.failover.place import GroupPlace, place_of
from firearrow.errors import DiskError, FireArrowError, LockHeld, NotNow, SettingsError
from firearrow.model.group_state import GroupState
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.store.epochs.promise import PromiseFile

GROUP = GroupState(epoch=4, master=1, iss=(1, 2), iss_seq=9, min_iss=2)
FIRST = Replica(1, "a:1", 900, 4)
THIRD = Replica(3, "c:1", 500, 3)


def test_the_election_of_a_replica_in_sync_loses_nothing() -> None:
    group, second = GROUP.with_directory(2, 77), MemberFacts("b:1", "b:2", directory=77)
    assert losses(group, 2, {2: second}, [FIRST])[-1] == "replica 2 is in sync: nothing that was acknowledged is lost"
    assert losses(group, 2, {}, [FIRST])[-1].endswith("nothing is lost if it starts with its directory")
    other = losses(group, 2, {2: replace(second, directory=78)}, [FIRST])
    assert "replica 2 was in sync with another directory: everything that it lacks now is lost" in other


def test_what_replicas_have_more_is_counted_and_what_is_unknown_is_said() -> None:
    said = losses(GROUP, 3, {}, [FIRST, THIRD])
    assert said[0] == "now: epoch 4, master 1, in sync [1, 2]"
    assert "replica 1 is in sync and has 400 bytes more than replica 3: they are lost" in said
    assert "replica 2 is in sync and does not answer: what only it has is lost, unknown how much" in said
    silent = Replica(3, "c:1", why="no answer")
    assert str(silent).startswith("replica 3 at c:1: not known (no answer); on its machine, firearrow store inspect")
    unknown = losses(GROUP, 3, {}, [FIRST, silent])
    assert "replica 3 does not say what it has: everything that it lacks is lost" in unknown


def test_a_replica_that_is_in_sync_and_dead_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of(None, "http://127.0.0.1:1", "broker-a", "")

    async def seen(_place: GroupPlace) -> GroupView:
        return GroupView(GROUP, b"", {1: MemberFacts("a:1", "a:2")})

    monkeypatch.setattr(GroupPlace, "seen", seen)
    assert asyncio.run(_in_sync(place, [1], 1.0)) == GROUP
    with pytest.raises(NotNow, match=r"replicas \[1, 2\] are not all in sync and alive after 0.1 s; .* alive \[1\]"):
        asyncio.run(_in_sync(place, [1, 2], 0.1))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / "0").write_bytes(b"messages")
    (root / "config").mkdir()
    asyncio.run(promised(root))
    return root


async def promised(root: Path) -> None:
    disk = RealDisk(str(root))
    disk.make_directory("firearrow")
    await (await PromiseFile.load(disk)).make(7, 2)
    await disk.close()


async def kept(store: Path, to: Path) -> None:
    made = await back_up(store, to)
    assert made == await read_backup(to)
    assert (made.epoch, "commitlog/0" in made.files, "lock" in made.files) == (7, True, False)


def test_a_backup_comes_back(store: Path, tmp_path: Path) -> None:
    to, again = tmp_path / "backup", tmp_path / "again"
    asyncio.run(kept(store, to))
    put_back(to, asyncio.run(read_backup(to)), again)
    assert (again / "commitlog" / "0").read_bytes() == b"messages"
    assert (again / "config").is_dir()
    with pytest.raises(SettingsError, match="is not empty"):
        put_back(to, asyncio.run(read_backup(to)), again)
    with pytest.raises(SettingsError, match="exists"):
        asyncio.run(back_up(store, to))


@pytest.mark.parametrize("harm", ["changed", "gone", "more"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(store: Path, tmp_path: Path, harm: str) -> None:
    to, again = tmp_path / "backup", tmp_path / "again"
    asyncio.run(kept(store, to))
    file = to / "store" / "commitlog" / "0"
    if harm == "changed":
        file.write_bytes(b"massages")
    elif harm == "gone":
        file.unlink()
    else:
        (file.parent / "1").write_bytes(b"")
    with pytest.raises(DiskError, match="is damaged: commitlog/"):
        put_back(to, asyncio.run(read_backup(to)), again)
    assert not again.exists()


def test_a_directory_in_use_or_of_no_group_is_not_copied(store: Path, tmp_path: Path) -> None:
    disk = RealDisk(str(store))
    lock = disk.lock("lock")
    with pytest.raises(LockHeld, match="a broker runs"):
        asyncio.run(back_up(store, tmp_path / "backup"))
    lock.release()
    asyncio.run(disk.close())
    for copy in (store / "firearrow").iterdir():
        copy.unlink()
    with pytest.raises(SettingsError, match="never part of a group"):
        asyncio.run(back_up(store, tmp_path / "backup"))
    with pytest.raises(SettingsError, match="holds no commitlog"):
        asyncio.run(back_up(tmp_path, tmp_path / "backup"))
    with pytest.raises(SettingsError, match="not a whole backup"):
        asyncio.run(read_backup(tmp_path))


def test_a_group_comes_from_options_or_the_settings_file_of_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nbrokerId=3\ncoordinatorAddress=http://h:1;http://i:1\ninSyncReplicas=3\n")
    assert (place_of(file, "", "", "").name, place_of(file, "", "b", "C").name) == ("a", "b")
    assert str(place_of(file, "", "b", "C")) == "group b of cluster C"
    assert place_of(file, "", "", "").min_iss == 3
    assert place_of(None, "http://h:1", "a", "").settings.failover.tls is None
    for words, missing in (((None, "", "a", ""), "--coordinator"), ((None, "http://h:1", "", ""), "--broker-name")):
        with pytest.raises(FireArrowError, match=missing):
            place_of(*words)


def test_files_for_tls_need_addresses_with_tls(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    files = "coordinatorTrustPath=ca.pem\ncoordinatorCertificatePath=me.pem\ncoordinatorKeyPath=me.key\n"
    file.write_text(f"brokerName=a\nbrokerId=3\ncoordinatorAddress=https://h:1\n{files}")
    tls = place_of(file, "", "", "").settings.failover.tls
    assert tls is not None
    assert (tls.verify_server, tls.trust_path, tls.certificate_path, tls.key_path) == (
        True,
        "ca.pem",
        "me.pem",
        "me.key",
    )
    with pytest.raises(SettingsError, match="nothing is encrypted"):
        place_of(file, "https://h:1;http://i:1", "", "")
    file.write_text("brokerName=a\nbrokerId=3\ncoordinatorAddress=https://h:1\ncoordinatorKeyPath=me.key\n")
    with pytest.raises(SettingsError, match="belong together"):
        place_of(file, "", "", "")


def test_a_command_says_what_is_missing() -> None:
    for words in (["show"], ["acts"], ["backup", "--to", "x"], ["elect", "--replica", "1"]):
        done = CliRunner().invoke(failover, words)
        assert done.exit_code == 1
        assert "is given: write --" in done.output
