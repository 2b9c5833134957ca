"""The epoch file in Apache's layout, the promised epoch, and the owed cut: each is whole after any crash."""

from zlib import crc32

import pytest

from firearrow.errors import DiskError, OffsetNotStored, StaleEpoch
from firearrow.model.epochs import Epoch, Epochs
from firearrow.store.epochs.epoch_file import COPIES, EpochFile, decode_epochs, encode_epochs
from firearrow.store.epochs.owed_cut import OwedCut
from firearrow.store.epochs.promise import PROMISE, PromiseFile
from firearrow.store.epochs.replica_files import MasterLog, ReplicaFiles
from firearrow.store.paths import EPOCHS, OURS
from tests.simulation.store.kit import InstantDisk, fresh_image, now

APACHE = b"2\n773307083\n7-7000\n8-8000\n"
"""The example in ``CheckpointFile``."""
HISTORY = Epochs((Epoch(7, 7000), Epoch(8, 8000)))


def disk() -> InstantDisk:
    made = InstantDisk(fresh_image())
    made.make_directory(OURS)
    now(made.sync_directory())
    return made


def test_the_layout_is_apaches() -> None:
    assert decode_epochs(APACHE) == HISTORY
    assert encode_epochs(HISTORY) == APACHE


def test_a_checksum_of_zero_is_not_checked() -> None:
    assert decode_epochs(b"1\n0\n3-40\n") == Epochs((Epoch(3, 40),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\n",
        APACHE[:-1],
        APACHE[:-7],
        APACHE.replace(b"7000", b"7001"),
        b"1\n0\n3-40-5\n",
        b"1\n0\n-3-40\n",
        b"2\n0\n4-40\n3-50\n",
        b"1\n0\n99999999999-1\n",
        b"1\n%d\n" % crc32(b""),
    ],
)
def test_what_is_not_whole_is_no_history(data: bytes) -> None:
    assert decode_epochs(data) is None


def test_a_history_is_read_from_its_copy_and_mended() -> None:
    one = disk()
    file = now(EpochFile.load(one))
    now(file.begin(1, 0))
    now(file.begin(4, 900))
    now(one.replace(EPOCHS, b"rotten"))
    assert now(EpochFile.load(one)).epochs == file.epochs
    assert [now(one.read_whole(path)) for path in COPIES] == [encode_epochs(file.epochs)] * 2


def test_two_damaged_copies_are_refused() -> None:
    one = disk()
    for path in COPIES:
        now(one.replace(path, b"rotten"))
    with pytest.raises(DiskError, match="copy the file of another replica"):
        now(EpochFile.load(one))


def test_a_promise_never_goes_back() -> None:
    one = disk()
    promise = now(PromiseFile.load(one))
    assert promise.epoch == 0
    now(promise.make(5, 1))
    for epoch, master in ((4, 1), (5, 2)):
        with pytest.raises(StaleEpoch, match="follows broker 1, master in epoch 5"):
            now(promise.make(epoch, master))
    again = now(PromiseFile.load(one))
    assert again.epoch == 5
    again.check(5, 1)
    again.check(6, 2)


def test_a_forgotten_promise_is_not_guessed() -> None:
    one = disk()
    now(now(PromiseFile.load(one)).make(5, 1))
    for path in (PROMISE, f"{PROMISE}.bak"):
        now(one.replace(path, b"rotten"))
    with pytest.raises(DiskError, match="which masters this replica must refuse"):
        now(PromiseFile.load(one))


def test_every_crash_within_a_promise_keeps_a_promise() -> None:
    """At every call, with and without the power: the old promise before `make` has returned, the new one afterwards."""
    for power in (False, True):
        for dies_at in range(40):
            image = fresh_image(dies_at)
            setup = InstantDisk(image)
            setup.make_directory(OURS)
            now(setup.sync_directory())
            now(now(PromiseFile.load(setup)).make(3, 1))
            returned = False
            try:
                dying = InstantDisk(image, dies_at=dies_at)
                now(now(PromiseFile.load(dying)).make(7, 2))
                returned = True
            except Exception as error:
                if type(error).__name__ != "Died":
                    raise
            image.process_died()
            if power:
                image.lose_power()
            found = now(PromiseFile.load(InstantDisk(image))).epoch
            assert found == 7 if returned else found in (3, 7)
            if found == 7:  # and one copy may rot afterwards
                now(InstantDisk(image).replace(PROMISE, b"rotten"))
                assert now(PromiseFile.load(InstantDisk(image))).epoch == 7


def test_an_owed_cut_is_there_until_it_is_paid() -> None:
    one = disk()
    owed = now(OwedCut.load(one))
    assert owed.offset is None
    now(owed.owe(4711))
    again = now(OwedCut.load(one))
    assert again.offset == 4711
    now(again.paid())
    assert now(OwedCut.load(one)).offset is None


def replica() -> ReplicaFiles:
    return now(ReplicaFiles.load(disk()))


def test_the_first_master_takes_the_whole_log() -> None:
    one = replica()
    now(one.lead(3, log_start=100, log_end=900))
    now(one.lead(3, log_start=100, log_end=950))  # and again after a restart within the epoch
    now(one.lead(5, log_start=100, log_end=1000))
    assert one.history.epochs == Epochs((Epoch(3, 100), Epoch(5, 1000)))


def test_a_replica_that_has_more_than_its_master_owes_a_cut() -> None:
    one = replica()
    now(one.lead(1, 0, 0))
    assert not now(one.rejoin(0, 500, MasterLog(Epochs((Epoch(1, 0), Epoch(2, 300))), 800)))
    assert one.cut.offset == 300


def test_a_replica_behind_its_master_goes_on() -> None:
    one = replica()
    now(one.lead(1, 0, 0))
    now(one.lead(2, 0, 300))  # and wrote nothing in it
    master = MasterLog(Epochs((Epoch(1, 0), Epoch(3, 400))), 800)
    assert now(one.rejoin(0, 300, master))
    assert one.cut.offset is None
    assert one.history.epochs == master.history
    assert now(replica().rejoin(0, 0, MasterLog(Epochs((Epoch(1, 0),)), 800)))


@pytest.mark.parametrize(
    ("start", "master", "named"),
    [(0, Epoch(9, 0), 8), (0, Epoch(9, 0), 3), (0, Epoch(9, 200), 0), (400, Epoch(3, 0), 0)],
    ids=["an empty replica was named", "and in this very epoch", "older files are deleted", "here too"],
)
def test_a_log_without_common_bytes_is_not_cut(start: int, master: Epoch, named: int) -> None:
    one = replica()
    now(one.lead(3, 0, 0))
    with pytest.raises(OffsetNotStored, match="no part of this log"):
        now(one.rejoin(start, 500, MasterLog(Epochs((master,)), 300, named)))
    assert one.cut.offset is None


def test_a_log_of_which_nothing_can_have_been_acknowledged_is_cut_whole() -> None:
    one = replica()
    now(one.lead(3, 0, 0))
    assert not now(one.rejoin(0, 500, MasterLog(Epochs((Epoch(4, 0),)), 0, named=2)))
    assert one.cut.offset == 0
