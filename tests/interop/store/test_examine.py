"""Programs that look for messages must miss them: a store with one wrong byte or one message too few is not called
good."""

import asyncio
from pathlib import Path

import pytest

from campaigns.store.examine import examine
from campaigns.store.ours import opened, save_topics, write
from campaigns.store.places import Place
from campaigns.store.plan import BATCH, message, steps

MESSAGES = 50 * BATCH


async def written(root: Path) -> dict[int, Place]:
    """A store of ours with delays, batches and large bodies."""
    await save_topics(root)
    promised: dict[int, Place] = {}
    async with opened(root) as store:
        async for places in write(store, steps(0, MESSAGES), 10911, flush="ASYNC_FLUSH"):
            promised |= places
    return promised


def test_finds_everything(tmp_path: Path) -> None:
    promised = asyncio.run(written(tmp_path))
    findings = asyncio.run(examine(tmp_path, promised))
    assert not findings.wrong
    assert findings.records == findings.by_queue == findings.by_id == findings.whole == MESSAGES
    assert findings.planned == MESSAGES - findings.scheduled
    assert findings.scheduled == sum(message(number).delay_level > 0 for number in range(MESSAGES)) > 0


@pytest.mark.parametrize("part", ["body", "properties"])
def test_misses_a_flipped_byte(tmp_path: Path, part: str) -> None:
    promised = asyncio.run(written(tmp_path))
    log = tmp_path / "commitlog" / ("0" * 20)
    wanted = message(700).body if part == "body" else message(700).unique_key.encode()
    data = log.read_bytes()
    at = data.index(wanted, promised[700].physical) + len(wanted) // 2
    with log.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))
    findings = asyncio.run(examine(tmp_path, promised, every=100))
    assert findings.wrong


def test_misses_a_promised_message(tmp_path: Path) -> None:
    promised = asyncio.run(written(tmp_path))
    end = max(place.physical for place in promised.values())
    findings = asyncio.run(examine(tmp_path, promised | {MESSAGES: Place(end + 1000, 0)}, every=100))
    assert len(findings.wrong) == 1
