"""How much servers log."""

from enum import StrEnum
from typing import Annotated

import typer


class Level(StrEnum):
    """Log levels, from the most lines to the fewest."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


LogLevel = Annotated[Level, typer.Option(case_sensitive=False, help="Lowest level that is logged.")]
