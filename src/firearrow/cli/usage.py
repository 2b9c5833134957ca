"""A complaint about the words of a command, in one line: what is wrong, what was probably meant, where to read on."""

from typing import Any


def told(error: Any) -> str:  # noqa: ANN401 - a complaint of whichever click is inside typer
    """The line for a complaint; nothing where only a command was written, since typer has shown its help then."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    text = " ".join(error.format_message().split()).replace("Value error, ", "")
    end = "" if text.endswith(("?", ".")) else "."
    path = error.ctx.command_path if error.ctx is not None else "firearrow"
    return f"{path}: {text}{end} `{path} --help` lists what there is."
