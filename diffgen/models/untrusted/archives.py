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


def members_of_one_folder(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Name inside of the one folder that torch puts everything into -> member.

    Raises:
        UntrustedError: some lie elsewhere, or have one name; torch takes capital and small letters for the same.
    """
    files = [info for info in archive.infolist() if not info.filename.endswith("/")]
    if len({info.filename.partition("/")[0] for info in files}) != 1:
        raise UntrustedError("its members are not in one folder")
    found: dict[str, zipfile.ZipInfo] = {}
    seen: set[str] = set()
    for info in files:
        name = info.filename.partition("/")[2]
        if name.lower() in seen:
            raise UntrustedError(f"the name {name[:80]!r} stands twice in it")
        seen.add(name.lower())
        found[name] = info
    return found


def declares_too_much(unpacked: int, size: int) -> bool:
    """Whether contents of ``unpacked`` bytes are far more than a file of ``size`` bytes can honestly hold."""
    return unpacked > _ALWAYS_ALLOWED + _MAX_TIMES * size


def is_plain_text(text: str) -> bool:
    """Whether a text holds nothing that a terminal obeys: what a model warns of, or fails with, may end up in one."""
    return not any(unicodedata.category(letter) == "Cc" and letter not in "\n\r\t" for letter in text)
