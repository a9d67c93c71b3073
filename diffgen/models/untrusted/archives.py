"""What zip archives of models have in common: they must neither unpack without bound nor run code unasked."""

from __future__ import annotations

import unicodedata
import zipfile

# PyTorch stores weights as they are and compresses code only, which shrinks to a tenth or so; a bomb shrinks to a
# thousandth.
_MAX_TIMES = 20
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
    return unpacked > _ALWAYS_ALLOWED + _MAX_TIMES * size


def is_plain_text(text: str) -> bool:
    """Whether a text holds nothing that a terminal obeys: what a model warns of, or fails with, may end up in one."""
    return not any(unicodedata.category(letter) == "Cc" and letter not in "\n\r\t" for letter in text)
