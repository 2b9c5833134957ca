"""How much servers log."""

from enum import StrEnum
from typing import Annotated

import typer


class Level(StrEnum):
    """From everything to the worst alone."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


LogLevel = Annotated[Level, typer.Option(case_sensitive=False, help="Log what is at least this important.")]
