"""Apache's JSON files: their forms, their copies, and progress that never runs ahead of the log."""

import asyncio

import pytest

from firearrow.errors import DiskError
from firearrow.store.configfiles import (
    CONSUMER_OFFSETS,
    TOPICS,
    ConfigFiles,
    ConsumerOffsets,
    Progress,
    consumer_offsets,
    consumer_offsets_document,
    cut_back,
    cut_back_delays,
    delay_offsets,
    delay_offsets_document,
    pretty,
)
from firearrow.testing.sim.diskimage import DiskImage
from tests.simulation.store.kit import InstantDisk, fresh_image

OFFSETS: ConsumerOffsets = {"cg": {"TopicA": {1: 7, 0: 1}, "%RETRY%cg": {0: 0}}}

# As Apache 4.9 writes it: fastjson puts numbers as keys on one line.
WRITTEN = b'{\n\t"offsetTable":{\n\t\t"%RETRY%cg@cg":{0:0\n\t\t},\n\t\t"TopicA@cg":{0:1,1:7\n\t\t}\n\t}\n}'


def test_the_form_is_fastjsons() -> None:
    assert pretty(consumer_offsets_document(OFFSETS)) == WRITTEN
    assert pretty(delay_offsets_document({3: 4})) == b'{\n\t"offsetTable":{3:4\n\t}\n}'
    assert pretty({"a": [1, {"b": None}], "c": {}, "d": []}) == (
        b'{\n\t"a":[\n\t\t1,\n\t\t{\n\t\t\t"b":null\n\t\t}\n\t],\n\t"c":{},\n\t"d":[]\n}'
    )


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        b'{"offsetTable":{"%RETRY%cg@cg":{"0":0},"TopicA@cg":{"1":7,"0":"1"}},"dataVersion":{"counter":1}}',
        b"{offsetTable:{'%RETRY%cg@cg':{0:0},'TopicA@cg':{1:7,0:1}}}",
    ],
)
def test_all_forms_are_read(text: bytes) -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        disk.make_directory("config")
        await disk.replace(f"config/{CONSUMER_OFFSETS}", text)
        document = await ConfigFiles(disk).load(CONSUMER_OFFSETS)
        assert document is not None
        assert consumer_offsets(document) == OFFSETS

    asyncio.run(main())


def test_what_makes_no_sense_is_left_out() -> None:
    assert consumer_offsets({"offsetTable": {"x": {0: 1}, "T@g": {"a": 1, "2": None, "3": 4}, "U@g": 5}}) == {
        "g": {"T": {3: 4}}
    }
    assert delay_offsets({"offsetTable": {"1": "2"}}) == {1: 2}
    assert delay_offsets({}) == {}


async def _saved() -> tuple[DiskImage, InstantDisk]:
    image = fresh_image()
    disk = InstantDisk(image)
    await ConfigFiles(disk).save(TOPICS, {"topicConfigTable": {"T": {"perm": 6}}})
    return image, disk


def test_every_rotten_bit_is_noticed_and_the_copy_is_read() -> None:
    async def main() -> None:
        image, disk = await _saved()
        good = await ConfigFiles(disk).load(TOPICS)
        for position in range(disk.status(f"config/{TOPICS}").size):
            for bit in (0, 4, 7):
                image.file(f"config/{TOPICS}").rot(position, bit)
                assert await ConfigFiles(disk).load(TOPICS) == good
                image.file(f"config/{TOPICS}").rot(position, bit)

    asyncio.run(main())


def test_a_newer_file_is_somebody_elses_and_believed() -> None:
    async def main() -> None:
        image, disk = await _saved()
        await disk.replace(f"config/{TOPICS}", b'{"topicConfigTable":{"U":{}}}')
        image.file(f"config/{TOPICS}").modified_ms += 1
        assert await ConfigFiles(disk).load(TOPICS) == {"topicConfigTable": {"U": {}}}

    asyncio.run(main())


def test_a_missing_file_is_read_from_its_copy_and_nothing_from_nothing() -> None:
    async def main() -> None:
        _, disk = await _saved()
        await disk.unlink(f"config/{TOPICS}")
        assert await ConfigFiles(disk).load(TOPICS) is not None
        await disk.unlink(f"config/{TOPICS}.bak")
        assert await ConfigFiles(disk).load(TOPICS) is None

    asyncio.run(main())


def test_offsets_behind_a_queues_end_are_taken_back() -> None:
    offsets: ConsumerOffsets = {"g": {"T": {0: 5, 1: 3}}}
    assert cut_back(offsets, lambda _topic, _queue_id: 4) == [("g", "T", 0, 5, 4)]
    assert offsets == {"g": {"T": {0: 4, 1: 3}}}
    delays = {1: 9, 2: 1}
    assert cut_back_delays(delays, lambda _queue_id: 4) == [(1, 9, 4)]
    assert delays == {1: 4, 2: 1}


def test_progress_is_written_after_the_log_and_as_it_was_before_waiting() -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        files, state, waited = ConfigFiles(disk), {"n": 1}, asyncio.Event()

        async def log_flushed() -> None:
            state["n"] = 2
            await waited.wait()

        progress = Progress(files, "x.json", lambda: dict(state), log_flushed, 1)
        await progress.flush()
        assert not disk.exists("config/x.json"), "nothing has changed"
        progress.touch()
        writing = asyncio.create_task(progress.flush())
        await asyncio.sleep(0)
        assert not disk.exists("config/x.json"), "the log is not flushed yet"
        waited.set()
        await writing
        assert await files.load("x.json") == {"n": 1}

    asyncio.run(main())


def test_progress_that_failed_is_tried_again() -> None:
    async def main() -> None:
        disk = InstantDisk(fresh_image())
        files = ConfigFiles(disk)
        attempts: list[int] = []

        async def log_flushed() -> None:
            attempts.append(len(attempts))
            if len(attempts) == 1:
                raise DiskError("no")

        progress = Progress(files, "x.json", lambda: {"n": 1}, log_flushed, 0)
        progress.touch()
        with pytest.raises(DiskError):
            await progress.flush()
        await progress.flush()
        assert await files.load("x.json") == {"n": 1}
        await progress.flush()
        assert attempts == [0, 1], "nothing has changed since"

    asyncio.run(main())
