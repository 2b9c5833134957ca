"""The methods of signing requests."""

from enum import StrEnum


class SignatureMethod(StrEnum):
    """The method of signing requests. Apache's servers know HMAC-SHA1 alone; HMAC-SHA256 of ours cannot be replayed."""

    SHA1 = "HmacSHA1"
    SHA256 = "HmacSHA256"
