"""Names in tables that come from a file or a master: those that no broker would have taken are left out.

A table can come from anywhere, and a name in it becomes the name of a directory, or of a topic derived from a group
(CVE-2019-17572 was such a name).
"""

import logging
from collections.abc import Mapping
from typing import TypeVar

from firearrow.model.names import is_legal

T = TypeVar("T")

log = logging.getLogger(__name__)


def with_legal_names(table: Mapping[str, T], what: str) -> dict[str, T]:
    """Return the rows with legal names; the log is told of the others."""
    odd = sorted(name for name in table if not is_legal(name))
    if odd:
        shown = ", ".join(map(repr, odd[:5]))
        log.error(
            "%d %s are left out, because their names have characters that are not allowed: %s", len(odd), what, shown
        )
    return {name: row for name, row in table.items() if is_legal(name)}
