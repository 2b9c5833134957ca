"""Airflow: archive a topic every hour and audit the archive afterwards. For Airflow 3.

A job that fails because of what it was told (status 2: an address, a topic, an option, a schema) is not tried again;
one that fails for another reason is, and goes on where it stopped.
"""

import subprocess
from datetime import UTC, datetime, timedelta

from airflow.exceptions import AirflowFailException
from airflow.sdk import dag, task

FIREARROW = "/opt/firearrow/bin/firearrow"
MISTAKE = 2
TABLE = ["--format=delta", "--location=/lake/orders"]
ARCHIVE = [
    "archive",
    "--name-servers=rocketmq-namesrv:9876",
    "--topics=orders",
    "--checkpoint=/lake/checkpoints/orders",
]
AUDIT = ["audit", "--receipts=/lake/receipts", "--page=/lake/audit.html"]


def run(words: list[str]) -> None:
    """Run a job; its last line of output is in Airflow's log."""
    ended = subprocess.run([FIREARROW, "pipeline", *words, *TABLE], check=False)  # noqa: S603 - words of this file
    if ended.returncode == MISTAKE:
        raise AirflowFailException(f"firearrow pipeline {words[0]}: see the log; trying again would not help")
    ended.check_returncode()


@dag(  # type: ignore[untyped-decorator]
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # one job at a time works with a checkpoint
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
)
def orders_archive() -> None:
    """Archive, then audit."""

    @task  # type: ignore[untyped-decorator]
    def archive() -> None:
        run(ARCHIVE)

    @task  # type: ignore[untyped-decorator]
    def audit() -> None:
        run(AUDIT)

    archive() >> audit()


orders_archive()
