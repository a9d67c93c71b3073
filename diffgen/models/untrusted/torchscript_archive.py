"""A look into a TorchScript archive before torch opens it.

TorchScript is a small language of its own, but it has operators that write and read files, and torch runs a part of the
code already when it opens the archive. torch also reads zip archives in its own way: it takes another member than
Python does where a name stands twice or in other letters, and it reads on beyond the end of weights that are shorter
than the archive says. So every member is read once, checked, and put into a new archive in memory; torch is given that.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch

from diffgen.models.untrusted.archives import UntrustedError, members_of_one_folder
from diffgen.models.untrusted.operators import FOREIGN_CLASSES, PACKED_WEIGHTS, is_allowed
from diffgen.models.untrusted.pickle_program import DamagedError, storages_of
from diffgen.models.untrusted.torchscript_code import check_code

_CODE = re.compile(r"code/__torch__(?:/\w+)*\.py", re.ASCII)
_OBJECTS = ("data.pkl", "constants.pkl")
_NUMBERS = re.compile(r"(data|constants)/\w+", re.ASCII)
# Small files of their own, and what may stand in them; the version is in one of two places.
_NOTES = {"version": rb"\d{1,3}\n?", ".data/version": rb"\d{1,3}\n?", "byteorder": rb"little|big"}
# Written by torch, but of no matter for a network that is only asked: where its code came from, examples, names that
# the user added, a form for telephones. They are left out of the copy.
_LEFT_OUT = re.compile(
    r"code/__torch__(?:/\w+)*\.py\.debug_pkl|traced_inputs(?:\.pkl|/\w+)|extra/.*|\.data/serialization_id|\.format_version"
    r"|\.storage_alignment|bytecode(?:\.pkl|/\w+)|mobile_debug_handles(?:\.pkl|/\w+)",
    re.ASCII,
)
_LONGEST = 80
_PIECE = 1 << 20


def checked_torchscript(path: Path) -> IO[bytes]:
    """A TorchScript archive anew, as a nameless file in memory that torch.jit.load can be given.

    Nothing of it has run yet. What torch makes of it is to be checked by ``check_graphs`` before it is asked.

    Returns:
        The new file, at its beginning; closing it frees the memory.

    Raises:
        UntrustedError: it holds something that torch.jit.save does not write, or code that does more than compute.
        OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error: it is damaged; weights are cut off.
    """
    copy = _nameless_file()
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            check_code({name: archive.read(info) for name, info in members.items() if name.endswith(".py")})
            _check_weights(archive, members)
            _copy(archive, members, copy)
    except BaseException:
        copy.close()
        raise
    copy.seek(0)
    return copy


def _copy(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], copy: IO[bytes]) -> None:
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as new:
        for name, info in members.items():
            allowed = _NOTES.get(name)
            if allowed is not None and re.fullmatch(allowed, archive.read(info)) is None:
                raise zipfile.BadZipFile(f"{name} does not hold what belongs there")
            target = zipfile.ZipInfo(f"archive/{name}")
            target.file_size = info.file_size
            with archive.open(info) as old, new.open(target, "w") as entry:
                shutil.copyfileobj(old, entry, _PIECE)


def _nameless_file() -> IO[bytes]:
    """In memory where the system has such files, so that nothing needs to be written to a disk."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("diffgen"), "w+b")
    return tempfile.TemporaryFile()  # its caller closes it


def is_quantized(path: Path) -> bool:
    """Whether the code of a sound TorchScript file calls quantized operators."""
    with zipfile.ZipFile(path) as archive:
        return any(b"quantized." in archive.read(name) for name in archive.namelist() if name.endswith(".py"))


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Name inside of the one folder -> member, of those that torch needs."""
    every = members_of_one_folder(archive)
    found = {name: info for name, info in every.items() if _LEFT_OUT.fullmatch(name) is None}
    for name in found:
        if not (name in (*_OBJECTS, *_NOTES) or _NUMBERS.fullmatch(name) or _CODE.fullmatch(name)):
            raise UntrustedError(f"it holds {name[:_LONGEST]!r}, as torch.jit.save does not write it")
    missing = next((name for name in _OBJECTS if name not in found), None)
    if missing is not None:
        raise zipfile.BadZipFile(f"{missing} is missing")
    return found


def _check_weights(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> None:
    """See that every array of numbers is as long as the pickles say."""
    for name in _OBJECTS:
        try:
            storages = storages_of(archive.read(members[name]))
        except DamagedError as error:
            raise zipfile.BadZipFile("the list of its weights is damaged") from error
        folder = name.removesuffix(".pkl")
        for key, storage in storages.items():
            member = members.get(f"{folder}/{key}")
            there = 0 if member is None else member.file_size
            if there < storage.size:
                raise zipfile.BadZipFile(f"its weights {key!r} are cut off, {there} bytes of {storage.size}")


# -- the graphs that torch made of the file ------------------------------------------------------------------------
#
# Whatever torch read in the file stands in them, so that nothing depends on reading the code as torch does.

# Calls of functions and methods: those of ``forward`` are put in place before it is looked through.
_CALLS = frozenset({"prim::CallFunction", "prim::CallMethod"})


def check_graphs(module: torch.nn.Module) -> None:
    """See that a network as torch has opened it calls operators of the list alone.

    Every method of every part is looked through, and ``forward`` once more with all that it calls in its place. Nothing
    is run, and nothing is optimized, which would compute what is constant.

    Args:
        module: as torch.jit.load gives it.

    Raises:
        UntrustedError: it calls something else.
    """
    for part in module.modules():
        script: Any = part._c
        for name in script._method_names():
            _check(script._get_method(name).graph, may_call=True)
    top: Any = module._c
    if top._has_method("forward"):
        _check(top._get_method("forward").inlined_graph, may_call=False)


def _check(graph: Any, *, may_call: bool) -> None:
    pending = [graph]
    while pending:
        block = pending.pop()
        for node in block.nodes():
            _check_node(node, may_call=may_call)
            pending.extend(node.blocks())
            for attribute in node.attributeNames():
                kind = node.kindOf(attribute)
                if kind == "g":
                    pending.append(node.g(attribute))
                elif kind == "gs":
                    pending.extend(node.gs(attribute))


def _check_node(node: Any, *, may_call: bool) -> None:
    kind = node.kind()
    namespace, _, operator = kind.partition("::")
    if not is_allowed(namespace, operator) and not (may_call and kind in _CALLS):
        raise UntrustedError(f"it calls {kind[:60]!r}, which is not on the list of operators that only compute")
    for output in node.outputs():
        made = output.type()
        if made.kind() != "ClassType":
            continue
        name = made.annotation_str
        if name.startswith(FOREIGN_CLASSES) and name not in PACKED_WEIGHTS:
            raise UntrustedError(f"it uses {name[:80]!r}, a class outside of the file")
