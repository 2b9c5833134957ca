"""The bodies that judges send, known to both sides by rule, so that every byte can be checked after the journey.

Body of message number i: `PREFIX-i|`, then filler byte j = 1 + (i + j) % 255 up to the size. No zero byte:
the C++ client hands bodies over as C strings. A digest is the SHA-256 of a body in hexadecimal.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

_CYCLE = bytes(range(1, 256))


@dataclass(frozen=True)
class Payload:
    """All bodies of one prefix and size."""

    prefix: str
    size: int = 0

    def body(self, index: int) -> bytes:
        """The body of one message."""
        head = f"{self.prefix}-{index}|".encode()
        missing = max(0, self.size - len(head))
        turned = _CYCLE[index % 255 :] + _CYCLE[: index % 255]
        return head + (turned * (missing // 255 + 1))[:missing]

    def digest(self, index: int) -> str:
        """The digest of one body."""
        return hashlib.sha256(self.body(index)).hexdigest()

    def key(self, index: int) -> str:
        """The key that the judge gives this message when asked for keys."""
        return f"{self.prefix}-{index}"


def set_digest(digests: Iterable[str]) -> str:
    """One digest of many, whatever their order: equal exactly when the same bodies are there equally often."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()
