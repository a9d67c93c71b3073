"""The models of a comparison that is not one of classes, as members of a panel that answers for all of them.

What two detectors say of a picture, or two maps, becomes classes of one contested thing only beside each other
(:mod:`diffgen.tasks.base`). So each is asked through a member of the panel, a black box whose answer is its own row of
what the task makes of the answers of all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import TaskConfig, roles
from diffgen.config.task import TaskName
from diffgen.errors import RunError, UserError
from diffgen.models.answer_store import AnswerStore
from diffgen.models.base import BlackBox
from diffgen.models.outputs import TASKS
from diffgen.tasks.base import Task
from diffgen.tasks.classification import listed, some_of
from diffgen.tasks.detection import VALUES, Detection
from diffgen.tasks.segmentation import Segmentation, map_sides
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array
from diffgen.wording import count_of


def task_of(model: BlackBox) -> TaskName:
    """What a prepared model does."""
    return TASKS.get(str(model.preprocessing.outputs), "classification")


def panel_of(models: Sequence[BlackBox]) -> Panel | None:
    """The panel that models are members of; None: they are asked for classes."""
    return models[0].panel if isinstance(models[0], Member) else None


def marked(models: Sequence[BlackBox], images: UInt8Array, name: str = "marks") -> dict[str, NDArray[Any]]:
    """What is to be drawn into pictures, uint8 (N, C, H, W), under a name; of classifiers nothing."""
    panel = panel_of(models)
    return {} if panel is None or len(images) == 0 else {name: panel.task.marks(panel.answers(images))}


def seated(models: Sequence[BlackBox], config: TaskConfig) -> tuple[BlackBox, ...]:
    """Members of a panel for prepared models that are not classifiers; classifiers as they are.

    Raises:
        UserError: they do not all do the same, or not what the settings say.
    """
    tasks = {role: task_of(model) for role, model in zip(roles(models), models, strict=True)}
    wanted = config.name or tasks["A"]
    if set(tasks.values()) != {wanted}:
        told = listed([f"{role} ({model.name}) for {tasks[role]}" for role, model in zip(tasks, models, strict=True)])
        raise UserError(
            f"The models are {told}" + (f", and --task says {wanted}" if config.name else "") + "; give models that "
            "answer alike, or say with --a-outputs, --b-outputs and so on what they answer with."
        )
    if wanted == "classification":
        return tuple(models)
    names, places = _by_name(models)
    return Panel(models, _task(names, models, config), places).members


def _task(names: tuple[str, ...], models: Sequence[BlackBox], config: TaskConfig) -> Task:
    """What becomes of the answers of models that all do the same."""
    if not models[0].detects:
        assert models[0].image_shape is not None
        _, *sides = models[0].image_shape
        return Segmentation(
            names, map_sides((sides[0], sides[1])), iou_below=config.iou_below, class_share=config.class_share
        )
    _check_suppression(models)
    return Detection(names, threshold=config.score, moved_below=config.moved_below, moved_pixels=config.moved_pixels)


def _check_suppression(models: Sequence[BlackBox]) -> None:
    """See that boxes are left out of all answers alike: what differs then is what the models say."""
    for option in ("score_floor", "nms_iou"):
        values = {role: getattr(model.preprocessing, option) for role, model in zip(roles(models), models, strict=True)}
        if len(set(values.values())) > 1:
            told = listed([f"{value:g} for {role}" for role, value in values.items()])
            raise UserError(
                f"--{option.replace('_', '-')} is {told}; give all detectors the same, so that what differs is theirs."
            )


def _by_name(models: Sequence[BlackBox]) -> tuple[tuple[str, ...], tuple[Int64Array, ...]]:
    """The classes of all models, each once, and for each model which of these its own are, int64 (C,).

    Classes without names are those of the first model that has as many, and names for them.

    Raises:
        UserError: a model has none of the first one's classes.
    """
    own = [model.class_names or tuple(map(str, range(model.num_classes))) for model in models]
    for index, model in enumerate(models):
        others = (each.class_names for each in models if each.num_classes == model.num_classes)
        own[index] = model.class_names or next(filter(None, others), own[index])
    for role, each in zip(roles(models), own, strict=True):
        if not set(each) & set(own[0]):
            raise UserError(
                f"A and {role} have no class in common ({some_of(own[0])}; {some_of(each)}); give both the same names "
                "with --class-names, or with --a-class-names and so on, in the order of each one's classes."
            )
    names = tuple(dict.fromkeys(name for each in own for name in each))
    return names, tuple(np.array([names.index(name) for name in each], dtype=np.int64) for each in own)


class Panel:
    """Models that are asked together.

    Args:
        boxes: prepared models of one task.
        places: of each model, which class of the task each of its own is, int64 (C,).
    """

    def __init__(self, boxes: Sequence[BlackBox], task: Task, places: Sequence[Int64Array]) -> None:
        self.boxes = tuple(boxes)
        self.task = task
        self.words = task.words
        self.seconds = [0.0] * len(self.boxes)  # that each took for the pictures asked about last
        self.places = tuple(places)
        self.heard: list[Float32Array] | None = None  # takes what the models say, where somebody listens
        self._lock = Lock()
        self._held: tuple[torch.Tensor, Float32Array] | None = None
        self._waiting: set[int] = set()

    @property
    def members(self) -> tuple[Member, ...]:
        """One for each model; not kept, as what refers to itself stays in memory, and the models with it."""
        return tuple(Member(self, index) for index in range(len(self.boxes)))

    def answers(self, images: torch.Tensor | UInt8Array) -> Float32Array:
        """What the models themselves say, float32 (N, M, D), classes by the numbers of the task's.

        Args:
            images: uint8 (N, C, H, W).
        """
        found = []
        for index, (model, places) in enumerate(zip(self.boxes, self.places, strict=True)):
            started = time.perf_counter()
            said = model.predict(images)
            said = said.cpu().numpy() if isinstance(said, torch.Tensor) else said
            self.seconds[index] = time.perf_counter() - started
            found.append(self._renumbered(said, places, model))
        width = max(each.shape[1] for each in found)
        return np.stack([_padded(each, width) for each in found], axis=1)

    def said(self, index: int, images: torch.Tensor | UInt8Array) -> Float32Array:
        """float32 (N, K): what one member says.

        Models are asked about pictures once for all members, as long as these come one after the other; a member that
        comes again asks again.
        """
        pictures = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
        with self._lock:
            held, self._held = self._held, None
            known = held is not None and index in self._waiting and _same(held[0], pictures)
            if known and held is not None:
                vectors = held[1]
            else:
                answers = self.answers(images)
                if self.heard is not None:
                    self.heard.append(answers)
                vectors = self.task.contested(answers)
                self._waiting = set(range(len(self.boxes)))
            self._waiting.discard(index)
            if self._waiting:
                self._held = (pictures, vectors)
            return vectors[:, index]

    def apart(self, first: Float32Array, second: Float32Array) -> tuple[float, BoolArray]:
        """How far two answers of one model are apart, and on which pictures they would count as a disagreement.

        Args:
            first, second: float32 (N, D), of the model itself.
        """
        vectors = self.task.contested(np.stack([first, second], axis=1))
        said = vectors.argmax(axis=2)
        return float(np.abs(vectors[:, 0] - vectors[:, 1]).max(initial=0)), said[:, 0] != said[:, 1]

    def _renumbered(self, answers: Float32Array, places: Int64Array, model: BlackBox) -> Float32Array:
        """Answers, float32 (N, D), with the task's numbers of their classes.

        Raises:
            RunError: the model found something of a class that it did not show before, and that nobody has named.
        """
        numbers = self.task.numbers_in(answers)
        largest = int(numbers.max(initial=-1))
        if largest >= len(places):
            known = count_of(len(places), "class", "classes")
            raise RunError(
                f"Model {model.name} found {'an object' if model.detects else 'a pixel'} of class {largest}, but has "
                f"only {known} as far as its file and the real images show; name all of them with --class-names."
            )
        if np.array_equal(places, range(len(places))):
            return answers
        answers = answers.copy()
        numbers = self.task.numbers_in(answers)
        there = numbers >= 0
        numbers[there] = places[numbers[there].astype(np.int64)]
        return answers


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.device == other.device and one.shape == other.shape and torch.equal(one, other)


def _padded(answers: Float32Array, width: int) -> Float32Array:
    """Boxes, float32 (N, P * 6), with as many that are none as make up the width."""
    none = np.tile(np.array([0, 0, 0, 0, 0, -1], dtype=np.float32), (width - answers.shape[1]) // VALUES)
    return answers if len(none) == 0 else np.concatenate([answers, np.tile(none, (len(answers), 1))], axis=1)


_OWN = frozenset({"panel", "box", "index"})


class Member(BlackBox):
    """One model of a panel; in everything but its answers and their classes it is the model itself."""

    def __init__(self, panel: Panel, index: int) -> None:
        self.panel = panel
        self.index = index
        self.box = panel.boxes[index]

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):  # while it is being copied
            raise AttributeError(name)
        return getattr(self.box, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.box, name, value)

    @property
    def format(self) -> str:  # type: ignore[override]
        return self.box.format

    @property
    def remarks(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.box.remarks

    @property
    def is_table(self) -> bool:  # type: ignore[override]
        return self.box.is_table

    @property
    def isolated(self) -> bool:  # type: ignore[override]
        return self.box.isolated

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """K, the words of the task."""
        return len(self.panel.words)

    @property
    def class_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The words of the task."""
        return self.panel.words

    @property
    def own_class_names(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.box.own_class_names

    @property
    def answers(self) -> AnswerStore:  # type: ignore[override]
        """Those of the model; where they do not count, no model's do."""
        return _Together(self.box.answers, [each.answers for each in self.panel.boxes])

    @property
    def size_open(self) -> bool:
        """Nobody finds out a size for it: pictures are brought to its size as its file or its user says."""
        return False

    @property
    def seconds(self) -> float:
        """That the model itself took for the pictures asked about last."""
        return self.panel.seconds[self.index]

    def prepare(self, images: torch.Tensor | UInt8Array) -> None:
        """See :meth:`BlackBox.prepare`."""
        self.box.prepare(images)

    def give_up(self) -> None:
        """See :meth:`BlackBox.give_up`."""
        self.box.give_up()

    @overload
    def predict(self, images: torch.Tensor) -> torch.Tensor: ...
    @overload
    def predict(self, images: UInt8Array) -> Float32Array: ...
    def predict(self, images: torch.Tensor | UInt8Array) -> torch.Tensor | Float32Array:
        """What it says of the thing that is contested in each picture, float32 (N, K); see :meth:`BlackBox.predict`."""
        said = self.panel.said(self.index, images)
        return torch.from_numpy(said.copy()).to(self.device) if isinstance(images, torch.Tensor) else said

    def raw_outputs(self, images: UInt8Array) -> Float32Array:
        """What the model itself says, float32 (N, D)."""
        return self.box.predict(images)

    def answers_background(self, images: UInt8Array) -> BoolArray:
        """None."""
        return np.zeros(len(images), dtype=np.bool_)

    def without_answer(self, images: UInt8Array) -> BoolArray:
        """See :meth:`BlackBox.without_answer`."""
        return self.box.without_answer(images)

    def _ask(self, batch: torch.Tensor) -> object:
        return self.box._ask(batch)


class _Together(AnswerStore):
    def __init__(self, own: AnswerStore, every: Sequence[AnswerStore]) -> None:
        self._own, self._every = own, every

    @property
    def images_left(self) -> int | None:
        return self._own.images_left

    def reserve(self, images: int) -> None:
        self._own.reserve(images)

    @property
    def cost_summary(self) -> str:
        return self._own.cost_summary

    def attach(self, file: Path | None) -> None:
        self._own.attach(file)

    def detach(self) -> None:
        self._own.detach()

    @contextmanager
    def bypass(self, occasion: str) -> Iterator[None]:
        with ExitStack() as entered:
            for each in self._every:
                entered.enter_context(each.bypass(occasion))
            yield
