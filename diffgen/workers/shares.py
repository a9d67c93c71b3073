"""How cores and GPUs of several machines are shared out among workers, none of which spans two of them."""

from __future__ import annotations

from collections.abc import Sequence

_UNIT = 10_000  # Ray counts in ten-thousandths


def share(places: Sequence[float], workers: int, wanted: float) -> float:
    """The largest share of each worker at which all of them find a place, but no more than ``wanted``.

    Args:
        places: what each machine has (cores), or each GPU (1); a worker's share is taken from one of these.
        workers: how many there are.
        wanted: of each.

    Returns:
        a share in ten-thousandths, rounded down; 0: there is nothing to share, or too little.
    """
    units, most = [int(each * _UNIT) for each in places], int(wanted * _UNIT)
    # a share that cannot be larger uses up one of the places: it is a whole fraction of that one
    sizes = {most, *(unit // count for unit in units for count in range(1, workers + 1))}
    for size in sorted(sizes, reverse=True):
        if 0 < size <= most and sum(unit // size for unit in units) >= workers:
            return size / _UNIT
    return 0.0
