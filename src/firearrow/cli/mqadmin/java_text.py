"""Texts as Java's tools print them: null, true, maps, times; and the times that they read. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from firearrow.errors import SettingsError
from firearrow.model import MessageQueue


def java(value: object) -> str:
    """Return what Java's ``toString`` returns for a plain value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, MessageQueue):
        return queue_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{java(key)}={java(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(java(each) for each in value) + "]"
    return str(value)


def formed(form: str, *values: object) -> str:
    """Return values in one of Java's formats, in which ``%s``, ``%d`` and ``%f`` mean the same as here."""
    told = (
        value if isinstance(value, int | float) and not isinstance(value, bool) else java(value) for value in values
    )
    return form % tuple(told) if values else form


def queue_text(queue: MessageQueue) -> str:
    """Return a queue as ``MessageQueue.toString`` does."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def front(text: str | None, size: int) -> str | None:
    """Return the first letters of a text."""
    return text if text is None else text[:size]


def time_text(ms: int) -> str:
    """Return a local time with milliseconds after a comma."""
    return f"{second_text(ms)},{ms % 1000:03d}"


def second_text(ms: int) -> str:
    """Return a local time in whole seconds."""
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def read_time(text: str) -> int:
    """Read milliseconds, or a local time as ``yyyy-MM-dd#HH:mm:ss:SSS``."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").astimezone()
    except ValueError:
        raise SettingsError(
            f"{text!r} is not a time; write milliseconds since 1970, or 2026-11-15#10:00:00:000"
        ) from None
    return int(moment.timestamp() * 1000)


def time_digits(ms: int) -> str:
    """Return a local time as digits alone: ``20261115100000123``."""
    return "".join(letter for letter in time_text(ms) if letter.isdigit())
