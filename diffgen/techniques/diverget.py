"""DiverGet: a particle swarm over the distortions of one real image, toward where the models' answers differ most.

A. Haj Yahmed, H. Ben Braiek, F. Khomh, S. Bouzidi, R. Zaatour, "DiverGet: a Search-Based Software Testing approach for
Deep Neural Network Quantization assessment", Empirical Software Engineering 27, 2022 (arXiv 2207.06282).

Only its abstract and what others say of it could be read, and there is no code of it. They say: a space of metamorphic
relations that simulate distortions as they occur in nature; population-based search explores it; it looks for
disagreements of networks of different precision. Of its two fitness functions one maximises how far the networks'
output probabilities lie apart; the other, coverage of neurons, needs the networks' insides, and is left out. RSMT, code
for one hyperspectral network that is built alike, has a vector with a switch and the parameters of each distortion, the
Jensen-Shannon divergence as fitness, and the particle swarm of the package pyswarm. So much is followed:

* a particle has three numbers for each operator: a switch, and up to two strengths. The operators are those of
  ``--source seeds`` that no network has to be trained for, without those that happen to photographs, in their usual
  ranges, whatever ``source.seeds.operators`` names; they are applied in one order.
* fitness is the Jensen-Shannon divergence of all models' answers: of two or of more.
* the swarm is pyswarm's: velocity = 0.5 x velocity + 0.5 r (own best - place) + 0.5 r' (swarm's best - place), for r
  and r' uniform in 0..1 of each number; what leaves the bounds is put onto them; velocities begin uniform, as large as
  the bounds are wide.

The rest is ours: 20 particles, 25 rounds, a switch that is on in a quarter of its range (with more at once pictures are
hardly ones any more; where none is on, the nearest to it is), and the end of a seed with its first trigger. The
distortions of hyperspectral images (of bands and sensors) are not there, nor is a genetic algorithm as another search.

There is no validity check in the search; diffgen's filters judge afterwards.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config.schema import setting, settings
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import Step
from diffgen.sampling import affordable_rows
from diffgen.sources.chains import applied
from diffgen.sources.operators import OPERATORS, STRENGTHS, Scene, is_grey, step_of, usual_operators
from diffgen.techniques.populations import UNKNOWN, Populations
from diffgen.types import Float32Array

INERTIA = OWN = SWARM = 0.5  # of pyswarm: omega, phip and phig
_ON = 0.25  # share of a switch's range
_GENES = 1 + STRENGTHS  # of one operator

Numbers = NDArray[np.float64]


@settings("search.diverget")
class DiverGetSettings:
    """Settings of DiverGet."""

    population: int = setting(20, "Particles of a swarm.", ge=2, le=1000)
    rounds: int = setting(25, "Rounds on one seed before it is given up.", ge=1, le=10**6)


def jensen_shannon(probabilities: Float32Array) -> Float32Array:
    """float32 (N,), nats, 0 where all models answer alike: how far float32 (N, M, K) answers of M models lie apart.

    It is the entropy of their mean less the mean of their entropies.
    """
    each = probabilities.astype(np.float64)
    mean = each.mean(axis=1)
    return np.asarray(_entropy(mean) - _entropy(each).mean(axis=1), dtype=np.float32)


def _entropy(probabilities: Numbers) -> Numbers:
    logs = np.log(np.where(probabilities > 0, probabilities, 1))
    return np.asarray(-(probabilities * logs).sum(axis=-1))


def moved(
    places: Numbers, velocities: Numbers, own: Numbers, swarm: Numbers, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Where a swarm is next, between -1 and 1, and how fast.

    Args:
        places, velocities: float64 (S, D).
        own: float64 (S, D), the best place of each particle.
        swarm: float64 (D,), the best place of all.
        rng: of the two random factors of each number.
    """
    towards_own, towards_swarm = rng.random((2, *places.shape))
    faster = INERTIA * velocities + OWN * towards_own * (own - places) + SWARM * towards_swarm * (swarm - places)
    return np.clip(places + faster, -1, 1), faster


def switched_on(switches: Numbers) -> NDArray[np.bool_]:
    """bool (n,): which operators act, for float64 (n,) between -1 and 1; one at least."""
    on = switches > 1 - 2 * _ON
    on[switches.argmax()] = True
    return np.asarray(on)


class DiverGet(Populations):
    """One round is one move of every seed's swarm."""

    name = "diverget"
    Settings = DiverGetSettings
    arrays = (*Populations.arrays, "places", "velocities", "best_places", "best_fitness")

    def prepare(self, lanes: int) -> None:
        images = self._real.images
        (channels, *sides), grey = images.shape[1:], is_grey(images)
        # more than these at once, and pictures are hardly ones any more
        self._names = [name for name in usual_operators(channels, grey=grey) if not OPERATORS[name].photographic]
        self._ranges = {name: OPERATORS[name].usual((sides[0], sides[1])) for name in self._names}
        rows = affordable_rows(images)
        # these operators know of no other image
        self._scene = Scene(
            torch.empty((0, *images.shape[1:]), dtype=torch.uint8),
            plain_background(_of(images, rows)),
            grey=grey,
        )
        size, genes = self.settings.population, _GENES * len(self._names)
        self._places, self._velocities, self._best_places = np.zeros((3, lanes, size, genes))
        self._best_fitness = np.full((lanes, size), UNKNOWN, dtype=np.float32)

    def begin(self, lane: int) -> None:
        """A swarm anywhere in the space."""
        shape = self._places.shape[1:]
        self._places[lane] = self._rng.uniform(-1, 1, shape)
        self._velocities[lane] = self._rng.uniform(-2, 2, shape)
        self._best_places[lane], self._best_fitness[lane] = self._places[lane], UNKNOWN
        self._draw(lane)

    def go_on(self, lane: int) -> None:
        """The swarm's next move."""
        better = self._fitness[lane] < self._best_fitness[lane]
        self._best_fitness[lane, better] = self._fitness[lane, better]
        self._best_places[lane, better] = self._places[lane, better]
        swarm = self._best_places[lane, self._best_fitness[lane].argmin()]
        self._places[lane], self._velocities[lane] = moved(
            self._places[lane], self._velocities[lane], self._best_places[lane], swarm, self._rng
        )
        self._fitness[lane] = UNKNOWN
        self._draw(lane)

    def _draw(self, lane: int) -> None:
        size = len(self._places[lane])
        seeds = torch.from_numpy(np.repeat(self._real.images[self._rows[lane]][None], size, axis=0))
        chains = [self.steps(lane, place) for place in range(size)]
        self._pictures[lane] = applied(chains, seeds, self._scene).numpy()

    def fitness_of(self, probabilities: Float32Array) -> Float32Array:
        return -jensen_shannon(probabilities)

    def steps(self, lane: int, place: int) -> tuple[Step, ...]:
        """The operators that are switched on, with their strengths."""
        genes = self._places[lane, place].reshape(len(self._names), _GENES)
        return tuple(
            step_of(self._names[number], OPERATORS[self._names[number]], pair, 0, self._ranges[self._names[number]])
            for number in np.flatnonzero(switched_on(genes[:, 0])).tolist()
            for pair in [(float(genes[number, 1]), float(genes[number, 2]))]
        )


def _of(images: NDArray[np.uint8], rows: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(images if len(rows) == len(images) else images[rows])
