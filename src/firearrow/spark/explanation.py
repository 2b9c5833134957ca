"""Explanations of failures inside Spark, in at most three lines. Pure.

An error of a source or a sink crosses Python, the JVM and Python again, and arrives as hundreds of lines: Spark's own
sentence, a trace of Java, and inside it the traces of Python. The last line of the innermost trace that names an error
of ours is what happened; else the first sentence of Spark's error class is.
"""

import re
from typing import Final

from msgspec import Struct

LONGEST: Final = 600
MISTAKES: Final = frozenset(
    {
        "AnalysisException",
        "ParseException",
        "IllegalArgumentException",
        *("TableNotFoundError", "NoSuchTableError", "NoSuchNamespaceError"),  # of deltalake and pyiceberg
    }
)
"""Errors of libraries that mean a mistake in what was asked."""
CATALOGS: Final = frozenset({"requests", "urllib3", "sqlalchemy", "botocore", "thrift"})
"""Packages through which catalogs are reached."""
_ESCAPES: Final = re.compile("\x1b\\[[0-9;]*m")
_OURS: Final = re.compile(r"firearrow\.errors\.(\w+): (.+)")
_PYTHON: Final = re.compile(r"^(?:pyspark\.errors[\w.]*\.)?(\w+(?:Error|Exception)): (.+)", re.MULTILINE)
_JAVA: Final = re.compile(r"^: ([\w.$]+(?:: .+)?)", re.MULTILINE)
"""The line of py4j's text that says what Java raised."""
NO_WORKER: Final = "Python worker failed to connect back"
"""Spark's text for a Python worker that needs more than 10 seconds to start."""
_NO_S3: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
_CLASS: Final = re.compile(r"\[[A-Z_.]+\] ?")
_STATE: Final = re.compile(r" SQLSTATE: \w+")


class Explanation(Struct, frozen=True):
    """A failure in words."""

    text: str
    is_known: bool
    """Whether an error of ours, or a mistake that Spark found in what was asked, is the reason."""


def explain(error: BaseException) -> Explanation:
    """Return the reason of a failure of Spark."""
    words = str(error)
    ours = _OURS.findall(words)
    if ours:
        return Explanation(_short(ours[-1][1]), is_known=True)
    if NO_WORKER in words:
        return Explanation(
            "a Python worker of Spark did not start within the 10 seconds that Spark allows: the machine is busy. "
            "Nothing is lost: start the command again, when less runs here, or with fewer tables at once",
            is_known=True,
        )
    outside = _of_storage(error)
    if outside:
        return Explanation(outside, is_known=True)
    kind = type(error).__name__
    is_mistake = kind in MISTAKES
    if not is_mistake:
        inner = [found for found in _PYTHON.findall(words) if not found[0].startswith(("Py4J", "PySparkRuntime"))]
        if inner:
            return Explanation(_short(f"{inner[-1][0]}: {inner[-1][1]}"), is_known=False)
    if _NO_S3 in words:
        return Explanation(
            "this Spark has no file system of S3: add the jar hadoop-aws of its Hadoop version, as by "
            "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION",
            is_known=True,
        )
    raised = _JAVA.search(words)
    if raised:
        return Explanation(_short(raised[1]), is_known=False)
    first = next((line for line in words.splitlines() if line.strip()), kind)
    return Explanation(_short(_STATE.sub("", _CLASS.sub("", first))), is_known=is_mistake)


def is_of_storage(error: BaseException) -> bool:
    """Whether an error came from a catalog or from a storage that cannot be used."""
    return bool(_of_storage(error))


def _of_storage(error: BaseException) -> str:
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    if packages & CATALOGS:
        return f"the catalog cannot be used: {_line(error)}; check --catalog uri=..., and whether it runs"
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        return f"the storage cannot be used: {_line(error)}; check --location and --storage, and the rights to it"
    return ""


def _line(error: BaseException) -> str:
    """Return the text of an error, in one line."""
    return _short(" ".join(_ESCAPES.sub("", str(error)).split()) or type(error).__name__).rstrip(".;")


def _short(text: str) -> str:
    text = text.strip().replace("\\n", " ")
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."
