"""Options for the log of servers: the level, text or JSON lines, standard error or files that rotate."""

import logging
import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firearrow.errors import SettingsError
from firearrow.telemetry.logs import LineForm, change_level, log_to_file, log_to_stderr, logs_json

log = logging.getLogger(__name__)


class Verbosity(StrEnum):
    """Log levels, from the most lines to the fewest."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


LogLevel = Annotated[
    Verbosity,
    typer.Option(
        case_sensitive=False,
        help="Lowest level that is logged. SIGUSR1 makes it DEBUG while the server runs, SIGUSR2 this one again.",
    ),
]
LogForm = Annotated[LineForm, typer.Option("--log-format", help="Lines of text, or one JSON object a line.")]
LogFile = Annotated[
    Path | None,
    typer.Option(help="Log to this file; at 128 MiB it is renamed to FILE.1 and so on, ten are kept. [standard error]"),
]


def start_logging(level: Verbosity, form: LineForm = LineForm.TEXT, file: Path | None = None) -> None:
    """Begin to log; the level changes by signals from then on."""
    if file is None:
        log_to_stderr(level, form)
    else:
        try:
            log_to_file(str(file), level, form)
        except OSError as error:
            raise SettingsError(f"{file} cannot be written: {error}; check the path after --log-file") from error
    signal.signal(signal.SIGUSR1, lambda _number, _frame: change_level(Verbosity.DEBUG))
    signal.signal(signal.SIGUSR2, lambda _number, _frame: change_level(level))


def tell(text: str, level: Verbosity = Verbosity.INFO) -> None:
    """Tell the operator something: a plain line on standard error, or a line of the log where that is JSON."""
    if logs_json():
        log.log(logging.getLevelNamesMapping()[level.value], text)
    else:
        typer.echo(text, err=True)
