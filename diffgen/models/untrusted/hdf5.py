"""A look into an HDF5 file before anybody reads weights from it.

HDF5 files may point to other files on the machine (external links, external storage, virtual data sets), may declare
arrays that are far larger than themselves, and may ask for filters that are loaded from libraries. Weights of a network
need none of that.
"""

from __future__ import annotations

from typing import Any

from diffgen.models.untrusted.archives import UntrustedError, declares_too_much

# deflate, shuffle and Fletcher's checksum belong to HDF5, LZF to h5py; others are loaded from libraries.
_FILTERS = {1, 2, 3, 32000}


def check_hdf5(file: Any, size: int) -> int:
    """See that a file holds plain arrays of its own.

    Args:
        file: an open h5py.File.
        size: bytes of it.

    Returns:
        Numbers in all arrays together.

    Raises:
        UntrustedError: it holds something else, or unpacks to many times its size.
        Exception: it is damaged; h5py raises half a dozen types.
    """
    import h5py

    groups, seen, arrays = [file], {_address(file)}, []
    while groups:
        group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise UntrustedError(f"{name[:60]!r} in it is a link to somewhere else")
            member = group[name]
            if _address(member) in seen:
                continue
            seen.add(_address(member))
            if isinstance(member, h5py.Group):
                groups.append(member)
            elif isinstance(member, h5py.Dataset):
                _check_array(name, member)
                arrays.append(member)
            else:
                raise UntrustedError(f"{name[:60]!r} in it is no array")
    if declares_too_much(sum(array.size * array.dtype.itemsize for array in arrays), size):
        raise UntrustedError("its arrays would unpack to many times its size")
    return sum(array.size for array in arrays)


def _check_array(name: str, array: Any) -> None:
    if array.external or array.is_virtual:
        raise UntrustedError(f"the array {name[:60]!r} in it lies in another file")
    if array.dtype.kind not in "fiub" and array.size:
        raise UntrustedError(f"the array {name[:60]!r} in it is not of numbers")
    plan = array.id.get_create_plist()
    if not {plan.get_filter(number)[0] for number in range(plan.get_nfilters())} <= _FILTERS:
        raise UntrustedError(f"the array {name[:60]!r} in it asks for a filter that is not part of HDF5")


def _address(member: Any) -> int:
    import h5py

    return int(h5py.h5o.get_info(member.id).addr)
