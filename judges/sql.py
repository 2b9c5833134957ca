"""Apache's SQL92 filter, asked about pairs of an expression and the properties of a message.

verdicts([("a > 1", {"a": "2"}), ("a >", {})])  # ["TRUE", "REFUSED"]
"""

import os
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Mapping

from judges.install.artifacts import filter_judge, server_jars
from judges.install.java import QUICK
from judges.install.toolchain import tool

Pair = tuple[str, Mapping[str, str]]
"""An expression and the properties of a message."""
REFUSED = "REFUSED"
PATIENCE_SECONDS = 300


def verdicts(pairs: Iterable[Pair], version: str = "5.5.0") -> list[str]:
    """Return TRUE, FALSE, NULL, ERROR or REFUSED for every pair, as the filter of a version of Apache's broker says."""
    path = os.pathsep.join((str(filter_judge(version).install()), f"{server_jars(version).install()}/*"))
    words = [tool("java"), *QUICK, "-Xmx256m", "-cp", path, "Verdicts"]
    lines = "\n".join(map(_line, pairs))
    ended = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    if ended.returncode:
        raise RuntimeError(f"Apache's filter failed ({ended.returncode}): {ended.stderr[-2000:]}")
    return ended.stdout.split()


def _line(pair: Pair) -> str:
    expression, properties = pair
    words = [expression, *(word for item in properties.items() for word in item)]
    return " ".join(b64encode(word.encode()).decode() for word in words)
