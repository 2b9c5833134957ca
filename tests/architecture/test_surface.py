"""The public surface changes only when that is meant."""

import difflib

from tests.architecture.surface import FILE, surface


def test_the_surface_is_the_one_written_down() -> None:
    written, there = FILE.read_text(encoding="utf-8"), surface()
    difference = "\n".join(difflib.unified_diff(written.splitlines(), there.splitlines(), "written", "there", n=2))
    assert not difference, f"the public surface changed; if that is meant: make surface\n{difference}"
