"""The plot of an audit is a real image that shows what was found, in the colours of the page."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from PIL import Image

from firearrow.spark.pipelines.audit import KINDS
from firearrow.spark.pipelines.audit_page import COLOURS
from firearrow.spark.pipelines.audit_plot import MOST_PANELS, draw


def hour(topic: str, number: int, **found: int) -> dict[str, Any]:
    at = datetime(2026, 1, 31) + timedelta(hours=number)  # noqa: DTZ001 - as Spark hands it over
    return {"topic": topic, "hour": at, "sent": 10, "stored": 10, **dict.fromkeys(KINDS, 0), **found}


def pixels(path: Path) -> tuple[int, int, set[bytes]]:
    """Width, height and the colours of an image."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        found = image.convert("RGB").getcolors(1 << 24)
        assert found is not None
        return image.width, image.height, {bytes(each) for _, each in found if isinstance(each, tuple)}


def colour(kind: str) -> bytes:
    return bytes.fromhex(COLOURS[kind][1:])


def test_every_kind_that_was_found_is_to_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "audit.png"
    rows = [hour("orders", number, lost=number % 3, duplicated=2, late=1) for number in range(30)]
    draw([*rows, hour("payments", 0, reordered=5, unread=9)], str(path))
    width, height, colours = pixels(path)
    assert width > 800
    assert height > 400
    assert path.stat().st_size > 10_000
    assert {colour(kind) for kind in KINDS} <= colours


def test_an_audit_without_rows_is_drawn_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.png"
    draw([], str(path))
    assert pixels(path)[:2] > (800, 100)


def test_topics_with_most_findings_come_first_and_their_number_is_bounded(tmp_path: Path) -> None:
    path, few = tmp_path / "audit.png", tmp_path / "few.png"
    draw([hour(f"t{number}", 0, lost=number) for number in range(MOST_PANELS + 5)], str(path))
    draw([hour(f"t{number}", 0, lost=number) for number in range(MOST_PANELS)], str(few))
    assert pixels(path)[:2] == pixels(few)[:2]
