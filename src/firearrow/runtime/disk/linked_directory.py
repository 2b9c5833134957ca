"""A directory of a store that lies elsewhere, such as on another disk: a link below the root leads to it.

So that everything that knows the root finds it, Apache's broker and tools too.
"""

import os

from firearrow.errors import SettingsError


def link_directory(root: str, name: str, target: str, key: str) -> None:
    """Let ``name`` below ``root`` lead to ``target``; ``key`` is the setting that asks for it.

    Raise ``SettingsError`` if there are files already: nothing is moved here, because a copy may take hours.
    """
    where = os.path.join(os.path.abspath(root), name)
    target = os.path.abspath(os.path.expanduser(target))
    if os.path.realpath(where) == os.path.realpath(target):
        return
    if os.path.lexists(where) and (os.path.islink(where) or os.listdir(where)):
        raise SettingsError(
            f"{key} is {target}, and {where} {_told(where)}: move what is there to {target} while no broker runs, "
            f"remove {where}, and start again; or remove the setting"
        )
    try:
        os.makedirs(target, exist_ok=True)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        if os.path.lexists(where):
            os.rmdir(where)
        os.symlink(target, where)
        _sync(os.path.dirname(where))
    except OSError as error:
        raise SettingsError(
            f"{key} is {target}, which cannot be used: {error}; check the path and its owner"
        ) from error


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _told(where: str) -> str:
    return f"leads to {os.readlink(where)}" if os.path.islink(where) else "has files"
