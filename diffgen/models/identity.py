"""Computes the digest that identifies a model file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from diffgen.errors import UserError
from diffgen.models.protobuf import MalformedError
from diffgen.models.untrusted import MissingWeightsError, UntrustedError, external_files

# No classifier of images comes near; a sparse file of a terabyte takes a minute to make and hours to read.
LARGEST_BYTES = 16 << 30


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's contents, as 64 hexadecimal digits.

    Raises:
        UserError: it is larger than any model.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise UserError(
                f"{path} has {size / 2**30:,.0f} GiB, and models of up to {LARGEST_BYTES >> 30} GiB are opened; give "
                "the path of a model file."
            )
        return hashlib.file_digest(file, "sha256").hexdigest()


def onnx_sha256(path: Path) -> str:
    """SHA-256 of an ONNX file, together with the files beside it that hold its weights, if there are any.

    Two models of the same network that keep their weights in files of their own, as torch.onnx.export does by now,
    are the same file byte for byte; the digest of that file alone would take them for one model.

    Raises:
        UserError: a file with weights is missing or lies elsewhere, or the file is damaged.
        OSError: a file cannot be read.
    """
    try:
        names = external_files(path)
    except MalformedError as error:
        raise UserError(f"{path} is an ONNX file that is damaged; copy or export it again.") from error
    except MissingWeightsError as error:
        raise UserError(f"{path} keeps its weights in a file {error} that is not beside it; put it there.") from error
    except UntrustedError as error:
        raise UserError(
            f"{path} is an ONNX file that is not opened because {error}; export it again with its weights inside or in "
            "a file beside it."
        ) from error
    if not names:
        return file_sha256(path)
    sha = hashlib.sha256(file_sha256(path).encode())
    for name in names:
        sha.update(f"\n{name} {file_sha256(path.parent / name)}".encode())
    return sha.hexdigest()
