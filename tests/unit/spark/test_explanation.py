"""Failures of Spark in a few words."""

import pytest

from firearrow.spark.explanation import LONGEST, explain

WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
firearrow.errors.NoRoute: no name server of 127.0.0.1:1 knows topic orders; check the name

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed
\tat org.apache.spark.Executor.run(Executor.scala:1)
"""


class AnalysisException(Exception):
    """Named as Spark's."""


class StreamingQueryException(Exception):
    """Named as Spark's."""


def test_an_error_of_ours_is_found_below_everything_that_spark_put_around_it() -> None:
    found = explain(StreamingQueryException(WORKER))
    assert found.text == "no name server of 127.0.0.1:1 knows topic orders; check the name"
    assert found.is_known


def test_a_mistake_that_spark_found_is_its_first_sentence() -> None:
    error = AnalysisException(
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703\n'Project"
    )
    found = explain(error)
    assert (found.text, found.is_known) == ("A column `x` cannot be resolved.", True)


def test_another_error_of_python_is_named_and_not_known() -> None:
    found = explain(
        StreamingQueryException("[X] y\nTraceback (most recent call last):\n  File\nValueError: bad luck\n\tat java")
    )
    assert (found.text, found.is_known) == ("ValueError: bad luck", False)


@pytest.mark.parametrize("words", ["", "\n\n"])
def test_an_error_without_words_is_its_name(words: str) -> None:
    assert explain(StreamingQueryException(words)).text == "StreamingQueryException"


def test_a_long_reason_is_cut() -> None:
    assert len(explain(StreamingQueryException("x" * 5000)).text) <= LONGEST + 4


def test_what_java_raised_is_told_instead_of_the_name_of_the_call() -> None:
    text = "An error occurred while calling o87.start.\n: java.lang.NoClassDefFoundError: a/b/C\n\tat x.y(Z.java:1)\n"
    said = explain(RuntimeError(text))
    assert said.text == "java.lang.NoClassDefFoundError: a/b/C"
    assert not said.is_known


def test_a_spark_without_s3_is_told_with_the_jar_that_it_needs() -> None:
    cause = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    said = explain(RuntimeError(f"An error occurred while calling o87.start.\n: {cause}\n\tat x.y(Z.java:1)\n"))
    assert "spark.jars.packages=org.apache.hadoop:hadoop-aws" in said.text
    assert said.is_known
