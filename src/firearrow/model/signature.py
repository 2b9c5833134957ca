"""How requests are signed."""

from enum import StrEnum


class SignatureMethod(StrEnum):
    """How requests are signed. Apache's servers know HMAC-SHA1 alone; HMAC-SHA256 of ours cannot be replayed."""

    SHA1 = "HmacSHA1"
    SHA256 = "HmacSHA256"
