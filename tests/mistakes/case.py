"""One mistake, and what must be said about it."""

from msgspec import Struct


class Case(Struct, frozen=True):
    """A mistake: a command, or a program in Python.

    In ``words``, ``code`` and what is to be said, ``$name`` stands for a place of the run (`places`).
    """

    mistake: str
    """In plain words, as the page has it."""
    names: str
    """The wrong thing that the line must name."""
    because: str
    """The reason that the line must give."""
    do: str
    """The remedy that the line must tell."""
    words: str = ""
    """A command without its first word, as a shell reads it."""
    code: str = ""
    """A program in Python."""
    environment: tuple[tuple[str, str], ...] = ()
    stdin: str = ""
    """Typed at the terminal."""
    wraps: str = ""
    """A program that runs the command: its words."""

    @property
    def is_command(self) -> bool:
        """Whether it is made at a shell."""
        return bool(self.words)
