# SPDX-License-Identifier: Apache-2.0
"""Files that hold a key: only their owner may read them."""

from __future__ import annotations

import os
import stat

from .errors import TocsinError


def read(path: str, limit: int, error: type[TocsinError]) -> bytes:
    """Reads at most ``limit`` bytes.

    :raises error: if the file cannot be read, or if other users of the machine can access it.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise error(f"{path} is not a regular file")
            if status.st_mode & 0o077:
                raise error(f"other users can access {path}: run chmod 600 {path}")
            return file.read(limit)
    except OSError as cause:
        raise error(f"cannot read {path}: {cause.strerror}") from None
