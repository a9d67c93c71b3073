"""Checks, before a sweep begins, that nothing is missing for its comparisons and their settings go together."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations

from diffgen.comparison.islands.begin import check_islands
from diffgen.comparison.named_settings import settled
from diffgen.comparison.requirements import check_models, check_settings, unused_source, without_unused_source
from diffgen.config import is_address
from diffgen.data.loading import check_there
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.tasks.classification import listed
from diffgen.workflows.sweep_plan import Cell


def check_comparisons(cells: Sequence[Cell]) -> None:
    """See that nothing is known that a comparison would fail of.

    A file or folder that is there is not opened: what is wrong with it is the failure of its comparisons alone.

    Raises:
        UserError: something is known, in one sentence for each cause; those after the first are notes of the error.
    """
    causes: dict[str, list[str]] = {}
    told: dict[Hashable, str] = {}
    for cell in cells:
        looks: dict[Hashable, Callable[[Cell], None]] = {
            (cell.technique, cell.budget, len(cell.models)): _check_settings,
            cell.data: _check_data,
            cell.models: _check_files,
        }
        for about, look in looks.items():
            if about not in told:
                told[about] = _cause(look, cell)
            if told[about]:
                causes.setdefault(told[about], []).append(cell.name)
    sentences = [
        f"The comparison {first}{f' and {len(others):,} more' if others else ''} cannot be done: {cause}"
        for cause, (first, *others) in causes.items()
    ]
    if sentences:
        error = UserError(sentences[0])
        for each in sentences[1:]:
            error.add_note(each)
        raise error


def warn_of_twins(cells: Sequence[Cell], progress: Progress) -> None:
    """Warn of pairs of models that are one and the same, which find nothing; of more, a comparison refuses that."""
    for pair, models in {cell.pair: cell.models for cell in cells}.items():
        if len(models) == 2 and _same(*models):
            progress.warn(
                f"The models of the pair {pair} are one and the same ({models[0]}), so that they cannot disagree; name "
                "the other model, unless this is a trial."
            )


def warn_of_unused_source(cells: Sequence[Cell], progress: Progress) -> None:
    """Warn of a source that the settings name and none of the techniques draws from; each of them leaves it out."""
    configs = {name: cell.config() for name, cell in {cell.technique: cell for cell in cells}.items()}
    if configs and all(unused_source(config) for config in configs.values()):
        family = next(iter(configs.values())).source.family
        progress.warn(
            f"The settings name the source {family}, but no picture of {listed(list(configs))} is drawn from it; leave "
            "family out of [settings.source], or add a technique that draws from it."
        )


def _same(one: str, other: str) -> bool:
    if is_address(one) or is_address(other):
        return one == other
    return os.path.samefile(one, other)


def _cause(look: Callable[[Cell], None], cell: Cell) -> str:
    try:
        look(cell)
    except UserError as error:
        return str(error)
    return ""


def _check_settings(cell: Cell) -> None:
    with settled(without_unused_source(cell.config()), {}) as config:
        check_settings(config)
        check_models(config, len(cell.models))
        check_islands(config)


def _check_data(cell: Cell) -> None:
    check_there(cell.data)


def _check_files(cell: Cell) -> None:
    for place in cell.models:
        if not is_address(place) and not os.path.exists(place):
            raise UserError(f"The model file {place} does not exist; check the path.")
    for one, other in combinations(cell.models, 2):
        if len(cell.models) > 2 and _same(one, other):
            raise UserError(f"The model {one} is named twice among {len(cell.models)}; leave one of them out.")
