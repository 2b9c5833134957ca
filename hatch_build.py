"""The description that a wheel carries: README.md, its links into the tree as words, for they lead nowhere there.

Two things are left out: the picture, whose file no wheel has, and the sentence that nothing is on a package index yet.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")

PICTURE = re.compile(r"^<picture>.*?</picture>\n\n", re.MULTILINE | re.DOTALL)

NOT_YET = re.compile(r"^No release is on the package index yet:.*?\n\n", re.MULTILINE | re.DOTALL)


class CustomMetadataHook(MetadataHookInterface):
    """Makes the description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text where the README is expected."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = PICTURE.sub("", NOT_YET.sub("", text))
        metadata["readme"] = {"content-type": "text/markdown", "text": RELATIVE_LINK.sub(r"\1 (`\2`)", text)}
