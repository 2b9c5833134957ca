"""Syncs a whole file system with one call.

A thousand small files cost a thousand journal commits when each is synced by itself, and a few when all are synced at
once. The call is ``syncfs``, which Python does not have; where the C library lacks it too, ``sync`` does the same
without telling of failures.
"""

import ctypes
import os


def sync_file_system(descriptor: int) -> OSError | None:
    """Make everything on the file system of an open directory durable; return what failed. Blocks."""
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        os.sync()
        return None
    if syncfs(descriptor) == 0:
        return None
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
