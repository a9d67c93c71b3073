"""What zip archives of models have in common: they must neither unpack without bound nor run code unasked."""

from __future__ import annotations

import zipfile

# PyTorch stores weights as they are and compresses code only, which shrinks to a tenth or so; a bomb shrinks to a
# thousandth.
_MOST_TIMES = 20
_ALWAYS_ALLOWED = 64 << 20


class UntrustedError(Exception):
    """The archive holds what could run code, or what is not known to be harmless; the message says what."""


def unpacks_too_far(archive: zipfile.ZipFile, size: int) -> bool:
    """Whether an archive of ``size`` bytes declares far larger contents, as a bomb does.

    A member that is larger than it declares is refused by those who read it.
    """
    return declares_too_much(sum(member.file_size for member in archive.filelist), size)


def declares_too_much(unpacked: int, size: int) -> bool:
    """Whether contents of ``unpacked`` bytes are far more than a file of ``size`` bytes can honestly hold."""
    return unpacked > _ALWAYS_ALLOWED + _MOST_TIMES * size
