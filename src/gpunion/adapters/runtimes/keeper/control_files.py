"""The safe way to a guest's control directory, from outside.

The guest can put anything there: links to the host's files, pipes that block a reader, files of any size.
So nothing is followed, nothing but a regular file is read, and never more than a bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from gpunion.ports.runtime import RuntimeFault

FILE_MAX_BYTES = 1024 * 1024  # a list of some thousand files; more is no message


def read_json(directory: Path, name: str) -> dict[str, object] | None:
    """The object a guest left under `name`; None when there is none that can be believed."""
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > FILE_MAX_BYTES:
            return None
        try:
            value = json.loads(file.read(FILE_MAX_BYTES))
        except (ValueError, RecursionError, OSError):
            return None
    return value if isinstance(value, dict) else None


def write_json(directory: Path, name: str, value: Mapping[str, object]) -> None:
    """Put a whole message under `name`. The guest sees the old one or the new one, never a part."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise RuntimeFault(f"the guest's control directory is not there: {error}", temporary=False) from error
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            if (
                os.geteuid() == 0
            ):  # the guest has another user then: whose directory it is, theirs is the message
                about = os.fstat(folder)
                os.fchown(descriptor, about.st_uid, about.st_gid)
            json.dump(dict(value), file)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)  # a disk that is full must not fill up with these
        raise RuntimeFault(f"cannot leave {name} for the guest: {error}", temporary=True) from error
    finally:
        os.close(folder)


def delete(directory: Path, name: str) -> None:
    """Take a message back, for example a notice that no longer holds. Absent: nothing."""
    try:
        os.unlink(directory / name)
    except OSError:
        return
