"""DiffGAN: NSGA-II over the genes of a source, with divergence and diversity as objectives.

Z. Aghababaeyan et al., "DiffGAN: A Test Generation Approach for Differential Testing of Deep Neural Networks".

Preset ``paper``, constant by constant (P: the paper, C: the published code; where they differ, the paper is followed
unless said otherwise):

* population 100 (P 3.3.1; C uses 10,000).
* latent vectors of 100 genes and no class, in the box [-1, 1], drawn uniformly (P 3.3.1, C). The preset therefore has
  its own GAN trained; a GAN or a generator that the user names keeps the length it has. The generator is trained on
  N(0, 1), so this box holds only vectors that are much shorter (norm 5.8, not 10) than those it was trained on.
  Architecture, loss and training of the GAN are diffgen's (docs/decisions/007).
* simulated binary crossover, 0.9 per mating (P 3.5, C), distribution index 15 (C: pymoo's default).
* polynomial mutation, "mutation rate 10 %" (P 3.5). C hands 0.1 to pymoo's ``prob``, which is the share of
  *individuals*; of those one gene in a hundred is changed (pymoo's default, 1 / n). Followed here, index 20.
* clustering in every generation, over the whole archive, after UMAP to 2 dimensions with 5 neighbours and
  min_dist 0.1, HDBSCAN with min_cluster_size 3 (C; P names no value). Noise points stand for nothing (C).
* survival by rank and crowding (C); P speaks of a tournament, which pymoo uses for mating.
* C also clusters the first 100 test images together with the archive, so that clustering is defined while the archive
  is empty. P does not mention it; it is not done here, and an empty archive gives every image the diversity 1.
* filters: discriminator and SSIM of 0.4, asked after the search (P 3.6). C has no discriminator filter and P names no
  threshold for it: that one is calibrated.

Everything is evaluated in batches, unlike in C, and survivors are scored again when the representatives change, which C
leaves out by mistake.

Preset ``diffgan`` goes the whole line of the paper, GAN, search, both filters and selector, with the search of
``default``; its filters are calibrated, and asked in the search too (docs/decisions/064).

Preset ``default`` differs where the prior or the cost asks for it: initial vectors come from the prior itself and keep
to its shell, every offspring is mutated in a tenth of its genes, the archive is clustered (after PCA, a bounded sample)
when it has grown by a fifth, and noise points, which are the novel ones, stand for themselves. The population is larger
and shared out among the ordered label pairs (``diffgen.search.survival``): without that it gathers around few
disagreements. A trigger that the validity filters reject loses against everything else: without that the search drifts
to pictures of nothing, since those are far from all others and divide the models well. Where pictures are made from
real images, many candidates are made for each, and screened before the models are asked (``diffgen.search.screen``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from diffgen.config import FilterConfig, SearchConfig
from diffgen.config.parts import FILTER_PRESETS
from diffgen.parts import Needs
from diffgen.search.diversity import Diversity, FeatureEmbedding, ImageEmbedding, PixelEmbedding, warm_up
from diffgen.search.nsga2 import Nsga2Search
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.screen import Screen
from diffgen.search.seed_finds import SeedFinds
from diffgen.techniques.base import Checkpoint, Preset, Technique, TechniqueContext

_PAPER = SearchConfig(
    population=100,
    # as published: the box [-1, 1] for a generator that learned from N(0, 1). Vectors of length 5.8 where it knows
    # lengths around 10 give tamer pictures, and the rest of what it draws stays out of reach; prior="generator" has it
    prior="box",
    bound=1.0,
    crossover_probability=0.9,
    crossover_eta=15.0,
    mutation_probability=0.1,
    mutation_gene_probability=None,
    mutation_eta=20.0,
    niches="none",
    sharing="none",
    validity="post",
    reducer="umap",
    reducer_dim=2,
    umap_neighbors=5,
    umap_min_dist=0.1,
    min_cluster_size=3,
    cluster_sample=None,
    cluster_growth=0.0,
    noise_representatives=0,
)


class DiffGan(Technique):
    """The search of the paper; see the module's text for the presets."""

    name = "diffgan"
    asks_filters = True
    presets: ClassVar = {
        "default": Preset(),
        "diffgan": Preset(
            SearchConfig(validity="constraint"),
            source="gan",
            filters=FilterConfig(names=FILTER_PRESETS["paper"].names),
            select=True,
        ),
        "paper": Preset(
            _PAPER, source="gan", gan={"latent_dim": 100, "conditional": False}, filters=FILTER_PRESETS["paper"]
        ),
    }

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        if context.config.diversity == "pixels":
            space: ImageEmbedding = PixelEmbedding()
        elif context.encoder is not None:
            space = FeatureEmbedding(context.encoder)
        else:
            raise ValueError("Diversity by features needs the encoder of the domain.")
        archive, config = context.archive, context.config
        problem = GeneProblem(
            context.need_source(),
            archive,
            Diversity(archive, config, space=space, seed=context.seed, device=context.device),
            config,
            memory=context.memory,
            has_cells=context.has_cells,
            guided=context.guided,
            batch_size=context.batch_size,
        )
        screen = None
        if config.sharing == "auto" and problem.space.real and config.screen != "none":
            finds = None if context.near_duplicate is None else SeedFinds(archive, context.near_duplicate)
            screen = Screen(
                problem.space, context.need_real().answers, context.accepts, finds, learns=config.screen != "pictures"
            )
        self._search = Nsga2Search(problem, config, seed=context.seed, screen=screen)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source"})

    @property
    def between_generations(self) -> bool:
        return self._search.between_generations

    def warm_up(self) -> None:
        warm_up(self.context.config)

    def propose(self, room: int) -> Proposal:
        return self._search.propose(room)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        self._search.learn(proposal, answers)

    def welcome(self, proposal: Proposal, answers: Answers) -> None:
        self._search.welcome(proposal, answers)

    def checkpoint(self) -> Checkpoint:
        return self._search.checkpoint()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._search.restore(state)
