"""Attributes of a pymoo population as arrays, and back.

``Population.get`` and ``set`` go through several Python calls for every value; these read and write the individuals'
own stores and give the same arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pymoo.core.individual import Individual
from pymoo.core.population import Population

Column = np.ndarray[Any, Any]

_CONFIG = Individual.default_config()  # of constraint violation; read only, so that all individuals may share it


def new_population(X: Column) -> Population:
    """A population that is not evaluated yet, float64 (N, n_var)."""
    rows = [Individual(config=_CONFIG) for _ in range(len(X))]
    for individual, genes in zip(rows, X, strict=True):
        individual.X = genes.copy()
    return Population.new() if not rows else np.array(rows).view(Population)


def column(population: Population, name: str) -> Column:
    """One attribute of all individuals: X, F, or a name of their data."""
    rows = population.tolist()
    if name == "X":
        return np.array([individual.X for individual in rows])
    if name == "F":
        return np.array([individual.F for individual in rows])
    return np.array([individual.data[name] for individual in rows])


def set_columns(population: Population, values: Mapping[str, Column]) -> None:
    """Write attributes of all individuals: F, or names of their data; one row of each array to each."""
    rows = population.tolist()
    for name, array in values.items():
        if name == "F":
            for individual, objectives in zip(rows, array, strict=True):
                individual.F = objectives.copy()
        else:
            for individual, value in zip(rows, array.tolist(), strict=True):
                individual.data[name] = value
