"""What a check does between the stages of a comparison: it refuses, measures, and gives the verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.comparison.black_boxes import resume_command
from diffgen.comparison.plan import Plan, Prepared
from diffgen.comparison.preflight import silences_since
from diffgen.comparison.probable_cause import cause_of
from diffgen.comparison.results import class_names
from diffgen.comparison.variations import vary
from diffgen.config import CheckConfig, replace, to_dict
from diffgen.events import Progress
from diffgen.gate.answers import Answers, largest_shift
from diffgen.gate.conditions import UNMEASURED, evaluate, measured_on
from diffgen.gate.ratchet import Acceptance, ratchet
from diffgen.gate.record import make_record
from diffgen.gate.result import CheckResult
from diffgen.gate.values import Behaviour, GateValues, KnownBehaviour, Replay, SearchState
from diffgen.models import BlackBox
from diffgen.models.panel import marked, panel_of
from diffgen.report.from_run import write_report
from diffgen.runs.results import RunResults, UnfinishedCheck, read_results, write_results
from diffgen.runs.store import Store
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.sampling import affordable_rows
from diffgen.sources.draws import UnsearchedDraws
from diffgen.tasks.classification import disagree, rows_by_key
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array
from diffgen.workflows.check_real import on_real_images, seen_by
from diffgen.workflows.check_requirements import check_labels, check_outputs, check_store, check_tables

_BATCH = 1024
_DRAWS = 20  # images drawn for each valid one that is wanted, at most


@dataclass
class Gate:
    """A check: what it asks for, what the store knows, and what was measured until now.

    Attributes:
        place: of the store, or None: there is none.
        progress: where to say how far it is.
        values: measured until now.
    """

    config: CheckConfig
    place: Path | None
    store: Store
    accepted: tuple[Acceptance, ...]
    progress: Progress
    values: GateValues = field(default_factory=lambda: GateValues(UNMEASURED))

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._answers: KeptAnswers | None = None
        self._shown: dict[str, np.ndarray[Any, Any]] = {}
        self._met = np.zeros(len(self.store.behaviours), dtype=np.int64)

    def about(self) -> dict[str, Any]:
        """What the manifest says of the check; JSON values."""
        settings = to_dict(self.config)
        del settings["compare"]  # in config.toml
        # whoever goes on with the check may do so from another folder
        return {"check": {**settings, "store": None if self.place is None else str(self.place.absolute())}}

    # -- before the search ---------------------------------------------------------------------------------------------

    def refuse(self, plan: Plan) -> None:
        """See that what is asked for can be measured with these models and images, or raise UserError."""
        check_labels(self.config, plan.images, plan.config)
        check_tables(self.config, self.store, plan.models)
        check_outputs(plan.models)
        if self.place is not None and self.store.behaviours:
            check_store(self.store, self.place, plan.models, plan.images)

    def measure(self, prepared: Prepared) -> None:
        """Ask about the store, real images, variations of them and random pictures."""
        if self.store.behaviours:
            stored = self._stored_images(prepared.images.image_shape)
            self._answers = _ask(prepared.models, stored, "Replaying the store", self.progress)
        self.values = replace(self.values, replay=self._replayed(prepared.real.summary.margin))
        unlabelled = prepared.images.labels is None and panel_of(prepared.models) is None
        if unlabelled and self.config.limits.max_disagreement is None:
            self.progress.warn(
                "The real images have no labels, so the candidate is held only against what the base is sure of; give "
                "labelled ones (a folder for each class, or an .npz or .parquet file with labels), or "
                "--max-disagreement."
            )
        search = SearchState(0, "The search did not come to its end.")
        measured = on_real_images(self.values, prepared, self.config.limits, self.progress)
        self.values = replace(measured, search=search, jury=prepared.recogniser is not None)
        self._ask_about_variations(prepared)
        self._ask_about_random_images(prepared)

    def _replayed(self, margin: float) -> Replay:
        if self._answers is None:
            return Replay()
        apart = disagree(torch.from_numpy(self._answers.probabilities), margin).numpy()
        same = (self._answers.labels == self._stored_said()).all(axis=1)
        return Replay(len(apart), int((apart & same).sum()), int((apart & ~same).sum()))

    def _ask_about_variations(self, prepared: Prepared) -> None:
        """Accuracy on random variations of real images, where there is a jury to say that they keep their label."""
        if prepared.recogniser is None or self.config.variations == 0:
            return
        made = vary(prepared, self.config.variations)
        self.values = replace(self.values, varied=made.drawn)
        if len(made.labels):
            answers = _ask(prepared.models, made.images, "Asking about variations of real images", self.progress)
            seen = seen_by(prepared, made.images, answers, self.progress, labels=made.labels)
            self.values = self.values.with_measured(measured_on("variations", seen))

    def _ask_about_random_images(self, prepared: Prepared) -> None:
        """Rates on what the source draws unsearched, as far as the filters accept it."""
        wanted, source = self.config.random_images, prepared.source.source
        if source is None:
            return  # the real images alone are asked about
        draws = UnsearchedDraws(prepared.config.seed, source.space.frequencies(prepared.images.labels))
        asked: list[Answers] = []
        count = drawn = accepted = 0
        with self.progress.stage("Asking about random pictures", total=wanted) as task:
            while count < wanted and drawn < _DRAWS * wanted:
                genes = torch.from_numpy(source.space.sample(prepared.batch_size, draws))
                images = source.draw(genes).cpu()
                drawn += len(images)
                valid = images[torch.from_numpy(prepared.pipeline.accepts(images))]
                accepted += len(valid)
                valid = valid[: wanted - count]
                if len(valid) == 0:
                    continue
                said = np.stack([model.predict(valid.numpy()) for model in prepared.models], axis=1)
                asked.append(seen_by(prepared, valid.numpy(), KeptAnswers.of(said), Progress()))
                count += len(valid)
                task.reach(count)
        if count < wanted:
            self.progress.warn(
                f"Of {drawn:,} random pictures the filters accept only {count:,}; {wanted:,} were asked for."
            )
        self.values = replace(self.values, drawn=drawn, accepted=accepted)
        if count:
            self.values = self.values.with_measured(measured_on("random", Answers.joined(asked)))

    # -- after it ------------------------------------------------------------------------------------------------------

    def conclude(self, prepared: Prepared, problem: str, triggers: TriggerTable | None = None) -> CheckResult:
        """The verdict, written to the run folder.

        Args:
            problem: why the search did not come to its end, or nothing.
            triggers: what it found, judged; None: what the folder holds of an earlier search that came to its end.
        """
        folder = prepared.folder
        names = class_names(prepared.models, prepared.images)
        judged = folder.has_arrays("verdicts") and folder.file("results.json").is_file()
        written = read_results(folder) if judged else None
        # a check that broke off before wrote its verdict there, and what was known until then
        finished = written if isinstance(written, RunResults) else None
        queries = 0 if finished is None else finished.queries
        changed = self._changed_in_store(prepared)
        # the search may meet a picture of the store again; it is counted as one of the store's
        met = {image.tobytes() for each in changed for image in each.images}
        if finished is not None and triggers is None:
            triggers = folder.read_judged()
        found = [] if triggers is None or finished is None else [found_by_search(triggers, met)]
        behaviours = self._behaviours([*found, *((each, _wrong_alone(each)) for each in changed)], prepared)
        self.values = replace(
            self.values,
            search=SearchState(queries, problem),
            behaviours=behaviours,
            known=self._known(),
            silences=(*prepared.real.silences, *silences_since(prepared.models, prepared.unanswered)),
            steadiness=replace(self.values.steadiness, unsteady=tuple(filter(None, prepared.real.unsteady))),
        )
        files, data = folder.manifest["files"], folder.manifest["data"]
        record = make_record(
            self.values,
            (*evaluate(self.values, self.config.limits), *ratchet(self.values, self.accepted)),
            self.config.limits,
            base=files["A"],
            candidate=files["B"],
            data=data["source"],  # as it was given, also where a resumed check has found it by its whole path
            store=None if self.place is None else str(self.place),
            class_names=names,
            seconds=time.monotonic() - self._started,
        )
        if self._shown:
            folder.write_arrays("check", self._shown)
        unfinished = UnfinishedCheck(
            class_names=names,
            preflight=prepared.real.summary,
            real_disagreements=len(prepared.real.disagreements),
            check=record,
        )
        write_results(folder, unfinished if finished is None else replace(finished, check=record))
        if finished is None:
            folder.save_manifest(status="failed")
        with prepared.progress.stage("Drawing the report"):
            write_report(folder, None if finished is None else triggers)
        again = folder.manifest["status"] != "done"
        go_on = resume_command(folder, prepared.config) if again else ""
        result = CheckResult.from_record(folder.path, record, go_on)
        return replace(
            result, real=prepared.real.summary, milliseconds=prepared.real.milliseconds, cause=cause_of(folder)
        )

    def _changed_in_store(self, prepared: Prepared) -> list[TriggerTable]:
        """Pictures of the store on which the two disagree, but not as they did when it was stored; number -1."""
        if self._answers is None:
            return []
        other = (self._answers.labels != self._stored_said()).any(axis=1)
        apart = disagree(torch.from_numpy(self._answers.probabilities), prepared.real.summary.margin).numpy()
        rows = np.flatnonzero(apart & other)
        images = self._stored_images(prepared.images.image_shape)[rows]
        cells = prepared.cells.assign(torch.from_numpy(images))
        said = self._answers[rows]
        changed = TriggerTable.of(images, said.probabilities, classes=said.classes, numbers=np.full(len(rows), -1))
        verdicts = Verdicts.replayed(cells)
        if prepared.recogniser is not None:
            verdicts = replace(verdicts, **vars(prepared.recogniser.read(torch.from_numpy(images))))
        return [changed.judged(verdicts)]

    def _behaviours(
        self, pictures: Sequence[tuple[TriggerTable, BoolArray]], prepared: Prepared
    ) -> tuple[Behaviour, ...]:
        """One for each kind of picture, whether the search found them, the store has them, or both.

        Args:
            pictures: tables, and on which rows of each the candidate alone is wrong.
        """
        if not any(len(each) for each, _ in pictures):
            return ()
        parts = [each for each, _ in pictures if len(each) > 0]
        faults = np.concatenate([wrong for _, wrong in pictures])
        images = np.concatenate([each.images for each in parts])
        probabilities = np.concatenate([each.probabilities for each in parts])
        classes = [each.classes for each in parts if each.classes is not None]
        said = np.concatenate([each.labels for each in parts])
        numbers = np.concatenate([each.numbers for each in parts])
        keys = np.concatenate([each.behaviours for each in parts])
        encoder = prepared.cells.encoder
        features = encoder.encode(torch.from_numpy(images)).cpu().numpy()
        stored = encoder.encode(torch.from_numpy(self._stored_images(prepared.images.image_shape))).cpu().numpy()
        distance, nearest = nearest_known(features, said, stored, self._stored_said())
        known = distance <= self._reach(prepared)
        self._met += np.bincount(self._owners()[nearest[known & (numbers >= 0)]], minlength=len(self._met))
        made: list[tuple[Behaviour, Int64Array]] = []
        for key, rows in rows_by_key(keys):
            chosen = rows[spread_out(features[rows], self.config.pictures)]
            behaviour = Behaviour(
                said=(key[0], key[1]),
                cell=key[2],
                count=len(rows),
                known=int(known[rows].sum()),
                shift=largest_shift(probabilities[rows]),
                triggers=tuple(numbers[chosen].tolist()),
                replayed=bool((numbers[rows] < 0).all()),
                faults=int(faults[rows].sum()),
            )
            made.append((behaviour, chosen))
        made.sort(key=lambda entry: (not entry[0].new, not entry[0].faults, -entry[0].shift, -entry[0].count))
        shown = np.concatenate([rows for _, rows in made])
        self._shown = {"images": images[shown], "probabilities": probabilities[shown]}
        self._shown |= marked(prepared.models, images[shown])
        if classes:
            self._shown["classes"] = np.concatenate(classes)[shown]
        return tuple(behaviour for behaviour, _ in made)

    def _known(self) -> tuple[KnownBehaviour, ...]:
        """How severe the behaviours of the store are in this check."""
        if self._answers is None:
            return ()
        kept = self._answers.probabilities
        shifts = np.abs(kept[:, 0] - kept[:, 1]).max(axis=1)
        owners = self._owners()
        return tuple(
            KnownBehaviour(each.name, each.names, int(self._met[index]), float(shifts[owners == index].max()))
            for index, each in enumerate(self.store.behaviours)
        )

    def _reach(self, prepared: Prepared) -> float:
        """The distance within which a picture is known; see :class:`diffgen.config.CheckConfig`."""
        cells = prepared.cells
        rows, every = affordable_rows(prepared.images.images), prepared.images.images
        images = every if len(rows) == len(every) else every[rows]
        features = cells.encoder.encode(torch.from_numpy(images)).cpu()
        to_centre = torch.cat([torch.cdist(part, cells.centroids).min(dim=1).values for part in features.split(4096)])
        return self.config.reach * float(to_centre.median())

    # -- the store -----------------------------------------------------------------------------------------------------

    def _stored_images(self, shape: tuple[int, int, int]) -> UInt8Array:
        stored = [each.images for each in self.store.behaviours]
        return np.concatenate(stored) if stored else np.empty((0, *shape), dtype=np.uint8)

    def _owners(self) -> Int64Array:
        """int64 (N,): which behaviour of the store each of its pictures belongs to."""
        counts = [len(each.images) for each in self.store.behaviours]
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)

    def _stored_said(self) -> Int64Array:
        stored = [np.tile(each.said, (len(each.images), 1)) for each in self.store.behaviours]
        return np.concatenate(stored).astype(np.int64) if stored else np.empty((0, 2), dtype=np.int64)


def _ask(models: Sequence[BlackBox], images: UInt8Array, title: str, progress: Progress) -> KeptAnswers:
    """What base and candidate say of images."""
    parts = []
    with progress.stage(title, total=len(images)) as task:
        for start in range(0, len(images), _BATCH):
            batch = images[start : start + _BATCH]
            parts.append(KeptAnswers.of(np.stack([model.predict(batch) for model in models], axis=1)))
            task.advance(len(batch))
    return KeptAnswers.joined(parts)


def found_by_search(triggers: TriggerTable, met: Set[bytes]) -> tuple[TriggerTable, BoolArray]:
    """The distinct valid triggers of a run, without those whose pixels are among ``met``.

    And on which of them the candidate alone is wrong: on the picture, or on that near-duplicate of it which the jury
    recognises, so that as many are counted here as among the figures of the run.
    """
    wrong = triggers.recognised_distinct & _wrong_alone(triggers)
    repeated = np.isin(triggers.numbers, triggers.known.near_duplicate_of[wrong])
    kept = triggers.distinct.copy()
    if met:
        kept[kept] = [image.tobytes() not in met for image in triggers.images_of(np.flatnonzero(kept))]
    return triggers[kept], repeated[kept]


def _wrong_alone(triggers: TriggerTable) -> BoolArray:
    """bool (N,): the jury says that the base is right and the candidate wrong."""
    base, candidate = triggers.faults.T
    return np.asarray(~base & candidate)


_AT_ONCE = 2**22  # numbers; of two classes all pictures have one of two label pairs, and a store may hold hundreds


def nearest_known(
    features: Float32Array, said: Int64Array, known_features: Float32Array, known_said: Int64Array
) -> tuple[Float32Array, Int64Array]:
    """The nearest known picture on which the models say the same two labels, for each picture.

    Args:
        features: float32 (N, D).
        said: int64 (N, 2), what base and candidate say.
        known_features, known_said: of the M known pictures.

    Returns:
        float32 (N,), how far away it is, infinite where no known picture has the same labels; and int64 (N,), its row
        among the known ones, -1 where there is none.
    """
    distance = np.full(len(features), np.inf, dtype=np.float32)
    nearest = np.full(len(features), -1, dtype=np.int64)
    met = dict(rows_by_key(said))
    for pair, known in rows_by_key(known_said):
        rows = met.get(pair)
        if rows is not None:
            stored = known_features[known]
            size = max(1, _AT_ONCE // stored.size)
            for some in np.split(rows, range(size, len(rows), size)):
                apart = np.linalg.norm(features[some][:, None] - stored[None], axis=2)
                nearest[some] = known[apart.argmin(axis=1)]
                distance[some] = apart.min(axis=1)
    return distance, nearest


def spread_out(features: Float32Array, count: int) -> Int64Array:
    """Rows of up to ``count`` pictures that stand for all: the most central one, then always the one furthest away.

    Greedy k-centres (Gonzalez 1985).

    Args:
        features: float32 (N, D), N at least 1.
    """
    centre: NDArray[np.float32] = features.mean(axis=0)
    chosen = [int(np.linalg.norm(features - centre, axis=1).argmin())]
    distance = np.linalg.norm(features - features[chosen[0]], axis=1)
    while len(chosen) < min(count, len(features)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(features - features[chosen[-1]], axis=1))
    return np.asarray(chosen, dtype=np.int64)
