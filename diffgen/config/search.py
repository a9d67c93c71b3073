"""The search, and what the techniques beside it need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from diffgen.errors import UserError


@dataclass(frozen=True)
class DrFuzzConfig:
    """Settings of :mod:`diffgen.techniques.drfuzz` alone.

    Attributes:
        fidelity: "discriminator": a mutant is asked about only when the discriminator takes it for at least as real as
            the image that its line of mutants began with; "none": every mutant is, and no discriminator is needed.
        mutants: made of one seed at a time, all by one mutator.

    Raises:
        UserError: a fidelity that is not known.
    """

    fidelity: Literal["discriminator", "none"] = "discriminator"
    mutants: int = 10

    def __post_init__(self) -> None:
        if self.fidelity not in ("discriminator", "none"):
            raise UserError(f"DRfuzz has fidelity {self.fidelity!r}; give discriminator or none.")


@dataclass(frozen=True)
class DFlareConfig:
    """Settings of :mod:`diffgen.techniques.dflare` alone.

    Attributes:
        mutations: tried on one seed before it is given up.
    """

    mutations: int = 100


@dataclass(frozen=True)
class SearchConfig:
    """NSGA-II over latent vectors (paper, sections 3.3 to 3.5). The presets live in ``diffgen.techniques.diffgan``.

    Techniques without a latent space use ``divergence``, which is recorded for every trigger, and the settings named
    after them; they ignore all others.

    Attributes:
        population: individuals in one generation.
        prior: "generator": initial vectors are drawn from the generator's own prior and are kept where it lies. For a
            normal one, genes are bounded by ``bound`` and a vector whose norm leaves the shell is scaled back; a
            uniform one is its box [-1, 1]. "box": uniform in [-bound, bound] whatever the generator, as published.
        bound: largest absolute value of a gene.
        crossover_probability: simulated binary crossover, share of the *matings* that are crossed at all.
        crossover_gene_probability: share of the *genes* of such a mating.
        crossover_eta: its distribution index.
        mutation_probability: polynomial mutation, share of the *individuals* that are mutated at all.
        mutation_gene_probability: share of the *genes* of such an individual, or None for 1 / latent_dim.
        mutation_class_probability: share of such individuals that are given another class, where the generator is
            conditional.
        mutation_eta: its distribution index.
        niches: "label_pair": the population is shared out among the ordered label pairs of its triggers; "behaviour":
            among label pairs and cells; "none": as published. Where there are more niches than individuals, every label
            pair keeps its best niches in turn (:mod:`diffgen.search.niches`).
        objectives: "both", or one of them alone: "divergence", "diversity" (paper, Table 3).
        divergence: how far apart two answers are: "euclidean+1" (Eq. 1), "jensen-shannon", or "top2-margin", nearness
            to a boundary.
        diversity: what images are compared by: "pixels" (Eq. 2) or "features" of the domain encoder.
        representatives: what an image is compared with: "clusters", one of each of the archive's HDBSCAN clusters
            (section 3.3.2.2), or "all" archived triggers, which is exact and slow.
        validity: "post": filters are asked after the search; "constraint": a trigger that they reject loses against
            everything else; "objective": how far it is from being accepted is one more objective. "auto":
            "constraint" where the technique can (``diffgan``), else "post".
        reducer: what shortens images before they are clustered.
        reducer_dim: length that they are shortened to.
        umap_neighbors, umap_min_dist: UMAP's own settings.
        min_cluster_size: HDBSCAN's.
        cluster_sample: most triggers that are clustered at once, evenly from all label pairs, or None for the whole
            archive.
        cluster_growth: cluster again when the archive has grown by this share; 0 means in every generation.
        noise_representatives: most noise points that stand for themselves.
        drfuzz, dflare: settings of the techniques of those names.
    """

    population: int = 500
    prior: Literal["generator", "box"] = "generator"
    bound: float = 3.0
    crossover_probability: float = 0.9
    crossover_gene_probability: float = 0.5
    crossover_eta: float = 15.0
    mutation_probability: float = 1.0
    mutation_gene_probability: float | None = 0.1
    mutation_class_probability: float = 0.05
    mutation_eta: float = 20.0
    niches: Literal["none", "label_pair", "behaviour"] = "label_pair"
    objectives: Literal["both", "divergence", "diversity"] = "both"
    divergence: Literal["euclidean+1", "jensen-shannon", "top2-margin"] = "euclidean+1"
    diversity: Literal["pixels", "features"] = "pixels"
    representatives: Literal["clusters", "all"] = "clusters"
    validity: Literal["auto", "post", "constraint", "objective"] = "auto"
    reducer: Literal["pca", "umap"] = "pca"
    reducer_dim: int = 20
    umap_neighbors: int = 5
    umap_min_dist: float = 0.1
    min_cluster_size: int = 3
    cluster_sample: int | None = 1000
    cluster_growth: float = 0.2
    noise_representatives: int = 256
    drfuzz: DrFuzzConfig = field(default_factory=DrFuzzConfig)
    dflare: DFlareConfig = field(default_factory=DFlareConfig)
