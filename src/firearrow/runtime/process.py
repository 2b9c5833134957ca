"""What a program may know about the process it runs in."""

import os


def process_id() -> int:
    """The number of this process; another one after a fork."""
    return os.getpid()


def home_directory() -> str:
    """Where the user's own files are."""
    return os.path.expanduser("~")
