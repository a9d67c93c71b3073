"""Random damage to files: anywhere in the bytes, and inside what is packed, so that checksums do not hide it."""

from __future__ import annotations

import gzip
import io
import random
import re
import zipfile
from collections.abc import Callable

_INTERESTING = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)
_NUMBERS = (b"0", b"-1", b"1", b"255", b"65536", b"2147483647", b"4294967296", b"9223372036854775807", b"1e400", b"nan")
_ENDS = 1024  # headers and directories lie within so many bytes of the beginning or the end


def mutate(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """A damaged copy.

    Args:
        content: a valid file.
        other: another file, of which pieces may be put in.
    """
    if content[:2] == b"PK" and rng.random() < 0.6:
        changed = _inside_zip(content, other, rng)
        if changed is not None:
            return changed
    if content[:2] == b"\x1f\x8b" and rng.random() < 0.6:
        return gzip.compress(_damaged(gzip.decompress(content), other, rng), mtime=0)
    return _damaged(content, other, rng)


def _damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        rng.choice(_CHANGES)(damaged, other, rng)
    return bytes(damaged)


def _inside_zip(content: bytes, other: bytes, rng: random.Random) -> bytes | None:
    """One member damaged, left out, doubled or renamed, with true checksums; None for what is no sound zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(member.filename, archive.read(member)) for member in archive.filelist]
    except Exception:  # zipfile raises half a dozen types; the bytes are damaged as they are, then
        return None
    if not members:
        return None
    chosen = rng.randrange(len(members))
    name, inner = members[chosen]
    what = rng.random()
    if what < 0.8:
        members[chosen] = (name, _damaged(inner, other, rng))
    elif what < 0.87:
        del members[chosen]
    elif what < 0.93:
        members[chosen] = (name, members[rng.randrange(len(members))][1])
    else:
        renamed = _damaged(name.encode(), b"../", rng).decode("utf-8", "replace")
        members[chosen] = (renamed.replace("\0", "_") or "_", inner)
    stream = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, inner in dict(members).items():
            archive.writestr(zipfile.ZipInfo(name), inner, method)
    return stream.getvalue()


def _place(data: bytearray, rng: random.Random) -> int:
    """Somewhere; the two ends more often than the middle."""
    last = max(len(data) - 1, 0)
    where = rng.random()
    if where < 0.35:
        return rng.randint(0, min(last, _ENDS))
    if where < 0.7:
        return rng.randint(max(last - _ENDS, 0), last)
    return rng.randint(0, last)


def _flip(data: bytearray, other: bytes, rng: random.Random) -> None:
    if data:
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, other: bytes, rng: random.Random) -> None:
    if data:
        data[_place(data, rng)] = rng.randrange(256)


def _set_number(data: bytearray, other: bytes, rng: random.Random) -> None:
    width = rng.choice((1, 2, 4, 8))
    value = rng.choice(_INTERESTING) & (256**width - 1)
    at = _place(data, rng)
    data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))


def _set_digits(data: bytearray, other: bytes, rng: random.Random) -> None:
    """Another number where one stands in text: shapes in headers, sizes in JSON, constants in code."""
    found = list(re.finditer(rb"\d+", bytes(data[:65536])))
    if found:
        match = rng.choice(found)
        data[match.start() : match.end()] = rng.choice(_NUMBERS)


def _cut_off(data: bytearray, other: bytes, rng: random.Random) -> None:
    del data[_place(data, rng) :]


def _cut_out(data: bytearray, other: bytes, rng: random.Random) -> None:
    at = _place(data, rng)
    del data[at : at + rng.choice((1, 2, 4, 16, 256))]


def _insert(data: bytearray, other: bytes, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16, 256)))


def _repeat(data: bytearray, other: bytes, rng: random.Random) -> None:
    at, length = _place(data, rng), rng.choice((1, 4, 16, 256, 4096))
    data[at:at] = data[at : at + length] * rng.choice((1, 1, 2, 16))


def _blank(data: bytearray, other: bytes, rng: random.Random) -> None:
    at, length = _place(data, rng), rng.choice((2, 4, 16, 256))
    data[at : at + length] = bytes([rng.choice((0, 0xFF))]) * len(data[at : at + length])


def _splice(data: bytearray, other: bytes, rng: random.Random) -> None:
    """A piece of another file in the place of one of this."""
    at, length = _place(data, rng), rng.choice((4, 16, 256, 4096))
    start = rng.randint(0, max(len(other) - 1, 0))
    data[at : at + length] = other[start : start + length]


_CHANGES: tuple[Callable[[bytearray, bytes, random.Random], None], ...] = (
    _flip,
    _flip,
    _set_byte,
    _set_byte,
    _set_number,
    _set_number,
    _set_digits,
    _set_digits,
    _cut_off,
    _cut_out,
    _insert,
    _repeat,
    _blank,
    _splice,
)
