"""Settings of the search; what one technique alone uses is declared beside it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from diffgen.config.plain import with_table
from diffgen.config.schema import Maybe, OpenTables, replace, setting, settings

OWN = "own"  # the table of a technique that is not diffgen's own


_SHARE: dict[str, Any] = {"ge": 0, "le": 1}


@settings("search")
class SearchConfig:
    """NSGA-II over latent vectors (paper, sections 3.3 to 3.5). The presets live in ``diffgen.techniques.diffgan``.

    Techniques without a latent space use ``divergence``, which is recorded for every trigger, and the table named after
    them (``[search.drfuzz]``), whose class lies beside the technique; they ignore all others.
    """

    population: int = setting(500, "Individuals in one generation.", ge=4, le=1_000_000)
    prior: Literal["generator", "box"] = setting(
        "generator",
        "Where initial vectors are drawn and stay: the generator's own prior (of a normal one its shell, within "
        "bound), or uniformly in the box [-bound, bound], as published.",
    )
    bound: float = setting(3.0, "Largest absolute value of a gene.", gt=0, le=100)
    crossover_probability: float = setting(
        0.9, "Simulated binary crossover: share of the matings that are crossed at all.", **_SHARE
    )
    crossover_gene_probability: float = setting(0.5, "Share of the genes of such a mating that are crossed.", **_SHARE)
    crossover_eta: float = setting(15.0, "Distribution index of the crossover.", gt=0, le=10**6)
    mutation_probability: float = setting(
        1.0, "Polynomial mutation: share of the individuals that are mutated at all.", **_SHARE
    )
    mutation_gene_probability: Maybe[float] = setting(
        0.1, "Share of the genes of such an individual that are changed; none for 1 / latent_dim.", **_SHARE
    )
    mutation_class_probability: float = setting(
        0.05, "Share of such individuals that are given another class, where the generator is conditional.", **_SHARE
    )
    mutation_eta: float = setting(20.0, "Distribution index of the mutation.", gt=0, le=10**6)
    niches: Literal["label_pair", "none"] = setting(
        "label_pair",
        "How the population is shared out: among the ordered label pairs of its triggers, or not at all (none), as "
        "published.",
    )
    sharing: Literal["auto", "none"] = setting(
        "auto",
        "How a generation is shared out among offspring and newcomers: by what each brought lately, where pictures are "
        "made from real images (auto), or not at all, all being offspring (none), as published.",
    )
    screen: Literal["auto", "both", "pictures", "none"] = setting(
        "auto",
        "What is looked at before the models are asked, where pictures are made from real images: genes, by a forest "
        "that learns from the answers, and pictures, by filters and jury (both); pictures alone; or nothing (none). "
        "auto: both, but nothing where looking would use up a budget in seconds, since the models are quicker.",
    )
    objectives: Literal["both", "divergence", "diversity"] = setting(
        "both", "Search for both, or for one of them alone (paper, Table 3).", option="--objectives"
    )
    divergence: Literal["euclidean+1", "jensen-shannon", "top2-margin"] = setting(
        "euclidean+1",
        "How far apart two answers are: Eq. 1 of the paper, or nearness to a boundary (top2-margin), ...",
        option="--divergence",
    )
    diversity: Literal["pixels", "features"] = setting(
        "pixels",
        "What pictures are compared by: pixels (Eq. 2 of the paper), or features of the domain encoder.",
        option="--diversity",
    )
    validity: Literal["auto", "post", "constraint"] = setting(
        "auto",
        "Ask the filters only after the search (post), or in it too, as a constraint (diffgan only); auto: constraint "
        "where the technique can.",
        option="--validity",
    )
    reducer: Literal["pca", "umap"] = setting(
        "pca", "What shortens pictures before they are clustered.", option="--reducer"
    )
    reducer_dim: int = setting(20, "Length that pictures are shortened to before they are clustered.", ge=1, le=65_536)
    umap_neighbors: int = setting(5, "UMAP's number of neighbours.", ge=2, le=10_000)
    umap_min_dist: float = setting(0.1, "UMAP's least distance between points.", **_SHARE)
    min_cluster_size: int = setting(3, "Minimum number of points in a cluster of HDBSCAN.", ge=2, le=10**6)
    cluster_sample: Maybe[int] = setting(
        1000,
        "Maximum number of triggers clustered at once, evenly from all label pairs; none for the whole archive.",
        ge=1,
        le=10**6,
    )
    cluster_growth: float = setting(
        0.2, "Cluster again when the archive has grown by this share; 0 for every generation.", ge=0, le=10**6
    )
    noise_representatives: int = setting(
        256, "Maximum number of noise points that stand for themselves.", ge=0, le=10**6
    )
    techniques: OpenTables = setting(
        factory=dict, about="Settings of single techniques, each in a table of its own; that of one of yours is own."
    )

    def with_technique(self, settings: Any) -> SearchConfig:
        """The same with the settings of one technique, such as ``DrFuzzSettings(mutants=5)``."""
        if hasattr(settings, "__table__"):
            return replace(self, techniques=with_table(self.techniques, settings))
        return replace(self, techniques={**self.techniques, OWN: asdict(settings)})
