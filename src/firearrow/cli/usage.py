"""Usage errors of a command line, in one line: what is wrong, what was probably meant, where to read on."""

from typing import Any


def usage_line(error: Any) -> str:  # noqa: ANN401 - the usage error of whichever click is inside typer
    """Return the line for a usage error; empty if typer has already shown the help of a command without arguments."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    text = " ".join(error.format_message().split()).replace("Value error, ", "")
    end = "" if text.endswith(("?", ".")) else "."
    path = error.ctx.command_path if error.ctx is not None else "firearrow"
    return f"{path}: {text}{end} `{path} --help` lists commands and options."
