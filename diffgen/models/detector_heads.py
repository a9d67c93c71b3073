"""What detectors answer with: finds out which layout it is, and reads boxes, scores and classes from it.

Read are, by what their authors call them (N images, M candidates, C classes, n boxes that are left after non-maximum
suppression):

========================  ============================================================================================
``yolov8``                (N, 4 + C, M): middle, width and height, C scores (Ultralytics from v8 on)
``yolov5``                (N, M, 5 + C): the same with objectness before the scores
``yolox``                 (N, M, 5 + C): offsets in a cell and logarithms of the sides, over strides
``boxes-and-scores``      (N, M, 4) corners or middles, and (N, M, C) scores, such as YOLO-NAS has
``rt-detr``, ``detr``     the same with logits: a sigmoid of each, or a softmax whose last value is for no object
``end-to-end``            (N, n, 6): corners, score, class (YOLOv10, exports with suppression); (n, 7) with the number
                          of the image first and the class before the score; or (N, n, 5) and labels (MMDetection)
``ssd``                   boxes as shares y1, x1, y2, x2; classes, scores and perhaps their number (TensorFlow)
``torchvision``           boxes, scores and labels of each image, labels from 1
``detections``            the same with labels from 0, or rows (n, 6), or objects with xyxy, confidence and class_id
========================  ============================================================================================

Coordinates are pixels of the network's input, or shares of it; which, the values show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias, get_args

import torch

from diffgen.config.models import HeadKind
from diffgen.errors import UserError
from diffgen.models.named_outputs import PARTS_OF_ONE, Outputs, named_outputs
from diffgen.models.wording import counted

HEADS: tuple[HeadKind, ...] = get_args(HeadKind)
# Of the others diffgen suppresses what overlaps; a DETR gives each object once.
_FINISHED: frozenset[HeadKind] = frozenset({"end-to-end", "ssd", "torchvision", "detections", "rt-detr", "detr"})

Size: TypeAlias = tuple[int, int]
_PARTS = re.compile(r"(\d+)\.(boxes|scores|labels)")
_STRIDES = (4, 8, 16, 32, 64)
_SHARES_UPTO = 2.0  # a coordinate that is a share of a side; boxes may reach beyond the picture
_NO_SCORE = 1e-3  # by which rounding leaves [0, 1]
_NUMBERED = 7  # columns of rows that begin with the number of their image
_FEWEST_ROWS = 5  # a column of a raw head is at least four coordinates and a score
_NAMED = 6
_FOLLOWS = 0.5  # correlation of middles with the grid


class NoHeadError(UserError):
    """What a model gives has not the form of any head."""


@dataclass(frozen=True)
class Candidates:
    """What a detector says of one image.

    Attributes:
        boxes: float32 (m, 4), x1, y1, x2, y2 in pixels of the network's input.
        scores: float32 (m,) in [0, 1].
        classes: float32 (m,), whole numbers from 0.
    """

    boxes: torch.Tensor
    scores: torch.Tensor
    classes: torch.Tensor


@dataclass(frozen=True)
class Head:
    """How the outputs of one model are read.

    Attributes:
        roles: which output is what.
        attributes_first: the candidates are the last axis.
        shares: coordinates are shares of the input's sides.
        middles: a box is its middle, width and height.
        logits: scores get a sigmoid, or a softmax.
        strides: of the grid of cells.
        classes: C, or 0: the outputs do not tell.
        batched: rows have the number of their image in front, and the class before the score.
    """

    kind: HeadKind
    roles: Mapping[str, str] = field(default_factory=dict)
    attributes_first: bool = False
    shares: bool = False
    middles: bool = True
    logits: bool = False
    strides: tuple[int, ...] = ()
    classes: int = 0
    batched: bool = False

    @property
    def finished(self) -> bool:
        """Whether it gives each object once, so that nothing is to be suppressed."""
        return self.kind in _FINISHED

    @property
    def words(self) -> str:
        """For people."""
        strides = f", strides {', '.join(map(str, self.strides))}" if self.strides else ""
        return f"{_article(self.kind)} {self.kind} head{strides}{', coordinates from 0 to 1' if self.shares else ''}"

    def decoded(self, outputs: Outputs, count: int, size: Size, *, from_one: bool) -> list[Candidates]:
        """Boxes, scores and classes of each image, before any is left out.

        Args:
            outputs: of :func:`named_outputs`, those that the head was found on or others of the same model.
            size: height and width of the network's input.
            from_one: labels are counted from 1.
        """
        if self.kind in ("torchvision", "detections"):
            each = [self._of_one(outputs, i) for i in range(count)]
        elif self.kind == "end-to-end":
            each = self._rows(outputs, count)
        elif self.kind == "ssd":
            each = self._of_ssd(outputs, count)
        else:
            boxes, scores = self._raw(outputs, size)
            best = scores.max(dim=2)
            each = [Candidates(*parts) for parts in zip(boxes, best.values, best.indices.float(), strict=True)]
        if self.shares:
            scale = torch.tensor([size[1], size[0]] * 2, dtype=torch.float32)
            each = [Candidates(one.boxes * scale.to(one.boxes.device), one.scores, one.classes) for one in each]
        if from_one:
            each = [Candidates(one.boxes, one.scores, one.classes - 1) for one in each]
        return each

    def _raw(self, outputs: Outputs, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
        """Corners (N, M, 4) and scores (N, M, C)."""
        if "boxes" in self.roles:
            boxes, scores = outputs[self.roles["boxes"]].float(), outputs[self.roles["scores"]].float()
        else:
            table = outputs[self.roles["rows"]].float()
            table = table.transpose(1, 2) if self.attributes_first else table
            boxes, scores = table[..., :4], table[..., 4:]
        if self.kind == "detr":
            scores = scores.softmax(dim=2)[..., :-1]
        elif self.logits or self.kind == "rt-detr":
            scores = scores.sigmoid()
        if self.kind in ("yolov5", "yolox"):
            scores = scores[..., 1:] * scores[..., :1]
        scores = scores[..., : self.classes or None]
        if self.kind == "yolox":
            boxes = _on_grid(boxes, size, self.strides)
        if self.middles:
            half = boxes[..., 2:] / 2
            boxes = torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], dim=2)
        return boxes, scores

    def _rows(self, outputs: Outputs, count: int) -> list[Candidates]:
        table = outputs[self.roles["rows"]].float()
        if "labels" in self.roles:
            labels = _with_batch(outputs[self.roles["labels"]].float(), 2)
            each = list(torch.cat([_with_batch(table, 3), labels[..., None]], dim=2))
        elif self.batched:
            each = [table[table[:, 0].round() == i][:, [1, 2, 3, 4, 6, 5]] for i in range(count)]
        else:
            each = list(_with_batch(table, 3))
        return [Candidates(rows[:, :4], rows[:, 4], rows[:, 5]) for rows in each]

    def _of_one(self, outputs: Outputs, number: int) -> Candidates:
        if self.roles:
            parts = {role: _with_batch(outputs[key], 3 if role == "boxes" else 2)[number]
                     for role, key in self.roles.items()}  # fmt: skip
        else:
            parts = {role: outputs[f"{number}.{role}"] for role in PARTS_OF_ONE if f"{number}.{role}" in outputs}
        boxes = parts["boxes"].reshape(-1, 4).float()
        # a detector of one class may leave its number out, and one that only says what is there its scores
        scores, labels = (
            parts[role].reshape(-1).float() if role in parts else torch.full((len(boxes),), usual, device=boxes.device)
            for role, usual in (("scores", 1.0), ("labels", 0.0))
        )
        return Candidates(boxes, scores, labels)

    def _of_ssd(self, outputs: Outputs, count: int) -> list[Candidates]:
        boxes = _with_batch(outputs[self.roles["boxes"]].float(), 3)[..., [1, 0, 3, 2]]
        scores, classes = (_with_batch(outputs[self.roles[role]].float(), 2) for role in ("scores", "labels"))
        left = [boxes.shape[1]] * count
        if "count" in self.roles:
            left = [int(each) for each in outputs[self.roles["count"]].reshape(-1).round().clamp(0, boxes.shape[1])]
        if len(left) != count:
            left = [boxes.shape[1]] * count
        return [Candidates(boxes[i, :n], scores[i, :n], classes[i, :n]) for i, n in enumerate(left)]


def _article(noun: str) -> str:
    return "an" if noun.startswith(("a", "e", "i", "o", "u", "ssd", "rt")) else "a"


# -- by shapes alone ---------------------------------------------------------------------------------------------------


def looks_like_boxes(answer: object, count: int) -> bool:
    """Whether what a model gave for some images may be a detector's answer, by its shapes."""
    outputs = named_outputs(answer)
    if any(_PARTS.fullmatch(name) for name in outputs):
        return True
    shapes = [tuple(each.shape) for each in outputs.values()]
    if len(shapes) == 1:
        (shape,) = shapes
        raw = len(shape) == 3 and shape[0] == count and min(shape[1:]) >= _FEWEST_ROWS
        return raw or (len(shape) == 3 and shape[-1] == 6) or (len(shape) == 2 and shape[1] == 7 and shape[0] != count)
    return any(shape[-1:] in ((4,), (5,)) and len(shape) in (2, 3) for shape in shapes)


def check_count(outputs: Outputs, count: int, name: str) -> None:
    """See that a model has answered for every image. UserError if it has not, or gave no tensors."""
    if not outputs:
        raise UserError(f"Model {name} gives nothing that boxes can be read from; let it give arrays.")
    parts = {int(match[1]) for key in outputs if (match := _PARTS.fullmatch(key))}
    shapes = [tuple(each.shape) for each in outputs.values()]
    deep = [shape[0] for shape in shapes if len(shape) == 3]
    numbered = len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][1] == _NUMBERED
    if (
        parts != set(range(count))
        if parts
        else (any(each != count for each in deep) or not (deep or numbered or count == 1))
    ):
        raise UserError(
            f"Model {name} gives {_described(outputs)} for {counted(count, 'image')}; export it so that it keeps the "
            "axis of the images."
        )
    for i in parts:
        boxes, scores = outputs.get(f"{i}.boxes"), outputs.get(f"{i}.scores")
        if boxes is None or boxes.numel() % 4 or (scores is not None and scores.numel() * 4 != boxes.numel()):
            raise UserError(
                f"Model {name} gives {_described(outputs)}; let it give boxes (n, 4), scores (n,) and labels (n,) for "
                "each image."
            )


def _described(outputs: Outputs) -> str:
    listed = [f"{name or 'an array'} {tuple(each.shape)}" for name, each in outputs.items()]
    return ", ".join(listed[:_NAMED]) + (", ..." if len(listed) > _NAMED else "")


# -- which head it is ------------------------------------------------------------------------------------------------


def find_head(samples: Sequence[Outputs], size: Size, *, classes: int, said: HeadKind | None, name: str) -> Head:
    """Which head a model has, by shapes and values of its answers to real images.

    Args:
        samples: of :func:`named_outputs`, one for each batch.
        size: height and width of the network's input.
        classes: how many names its classes have, or 0.
        said: the kind, where somebody has said it.
        name: of the model, for messages.

    Raises:
        NoHeadError: it is none that is known; the message says what to say.
        UserError: it is one of two, and the values leave open which.
    """
    first = samples[0]
    if any(_PARTS.fullmatch(key) for key in first):
        return Head(said or "torchvision", middles=False)
    found = (
        _single(samples, size, classes, said) or _with_labels(samples, said) or _with_class_scores(samples, said, name)
    )
    if found is not None:
        return found
    wanted = f"{_article(said)} {said} head" if said else "boxes"
    raise NoHeadError(
        f"Model {name} gives {_described(first)}, from which {wanted} cannot be read; say with --head which it is "
        f"({', '.join(HEADS)}), with --output-name which output to read, or export it with non-maximum suppression."
    )


def _single(samples: Sequence[Outputs], size: Size, classes: int, said: HeadKind | None) -> Head | None:
    """Of one output, or of several of which one alone has the shape of a raw head."""
    tables = {key: each for key, each in samples[0].items() if each.ndim in (2, 3) and each.is_floating_point()}
    if len(samples[0]) > 1:
        tables = {key: each for key, each in tables.items() if each.ndim == 3 and min(each.shape[1:]) > _FEWEST_ROWS}
    if len(tables) != 1:
        return None
    key, table = next(iter(tables.items()))
    every = [each[key].float() for each in samples]
    roles = {"rows": key}
    if table.ndim == 2 and table.shape[1] == 7 and said in (None, "end-to-end"):
        rows = torch.cat(every)
        return Head("end-to-end", roles, shares=_are_shares(rows[:, 1:5]), middles=False, batched=True)
    if table.shape[-1] == 6 and said in (None, "end-to-end"):
        rows = torch.cat([each.reshape(-1, 6) for each in every])
        if said or _are_finished(rows):
            return Head("end-to-end", roles, shares=_are_shares(rows[:, :4]), middles=False)
    if table.ndim != 3 or table.shape[1] == table.shape[2] or said not in (None, "yolov8", "yolov5", "yolox"):
        return None
    attributes_first = table.shape[1] < table.shape[2]
    rows = torch.cat([(each.transpose(1, 2) if attributes_first else each).reshape(-1, min(each.shape[1:]))
                      for each in every])  # fmt: skip
    columns = rows.shape[1]
    objectness = columns - 5 == classes if classes in (columns - 4, columns - 5) else not attributes_first
    cells = max(table.shape[1:])
    undecoded = _are_undecoded(rows, cells, size)
    kind: HeadKind = said or ("yolox" if undecoded else "yolov5" if objectness else "yolov8")
    own = columns - (4 if kind == "yolov8" else 5)
    if own < 1:
        return None
    strides = _strides(cells, size) if kind == "yolox" else ()
    if kind == "yolox" and not strides:
        return None
    return Head(
        kind,
        roles,
        attributes_first=attributes_first,
        shares=kind != "yolox" and _are_shares(rows[:, :4]),
        logits=not _are_scores(rows[:, 4:]),
        strides=strides,
        # what comes after the scores are coefficients of masks, or points
        classes=classes if 0 < classes < own else own,
    )


def _with_labels(samples: Sequence[Outputs], said: HeadKind | None) -> Head | None:
    """Boxes, scores and one label for each."""
    first = samples[0]
    fours = {k: v for k, v in first.items() if v.ndim in (2, 3) and v.shape[-1] in (4, 5)}
    # with an axis for the images, where there is one: the classes of four or five boxes are as many numbers
    boxes = _named_like(("box", "dets"), {k: v for k, v in fours.items() if v.ndim == 3} or fours)
    if boxes is None or said not in (None, "ssd", "torchvision", "detections", "end-to-end"):
        return None
    beside = {k: v for k, v in first.items() if k != boxes and tuple(v.shape) == tuple(first[boxes].shape[:-1])}
    if first[boxes].shape[-1] == 5:
        labels = _named_like(("label", "class"), beside)
        rows = torch.cat([each[boxes].float().reshape(-1, 5) for each in samples])
        if labels is None:
            return None
        return Head("end-to-end", {"rows": boxes, "labels": labels}, shares=_are_shares(rows[:, :4]), middles=False)
    if len(beside) < 2:
        return None
    named = _named_like(("class", "label"), beside, several=True), _named_like(("score", "conf"), beside, several=True)
    labels, scores = named if None not in named else _by_values(samples, list(beside))
    if labels is None or scores is None:
        return None
    roles = {"boxes": boxes, "labels": labels, "scores": scores}
    # TensorFlow gives classes as floating-point numbers, torch as integers
    kind = said or ("ssd" if first[labels].is_floating_point() else "torchvision")
    images = len(first[boxes]) if first[boxes].ndim == 3 else 1
    counts = [key for key, each in first.items() if each.numel() == images and key not in roles.values()]
    if kind == "ssd" and counts:
        roles["count"] = counts[0]
    rows = torch.cat([each[boxes].float().reshape(-1, 4) for each in samples])
    return Head(kind, roles, shares=_are_shares(rows), middles=False)


def _with_class_scores(samples: Sequence[Outputs], said: HeadKind | None, name: str) -> Head | None:
    """Boxes, and a score of every class for each."""
    first = samples[0]
    boxes = _named_like(("box",), {k: v for k, v in first.items() if v.ndim == 3 and v.shape[2] == 4})
    if boxes is None or said not in (None, "boxes-and-scores", "rt-detr", "detr"):
        return None
    beside = {k: v for k, v in first.items() if k != boxes and v.ndim == 3 and v.shape[:2] == first[boxes].shape[:2]}
    scores = _named_like(("score", "logit", "class", "conf"), beside)
    if scores is None:
        return None
    rows = torch.cat([each[boxes].float().reshape(-1, 4) for each in samples])
    values = torch.cat([each[scores].float().reshape(-1, first[scores].shape[2]) for each in samples])
    if said is None and not _are_scores(values):
        raise UserError(
            f"Model {name} gives {counted(values.shape[1], 'logit')} for each box, and nothing says whether "
            "the last one is for no object; say --head detr if it is (a softmax), or --head rt-detr (a sigmoid)."
        )
    return Head(
        said or "boxes-and-scores",
        {"boxes": boxes, "scores": scores},
        shares=_are_shares(rows),
        middles=bool((rows[:, 2:] < rows[:, :2]).any()),
        logits=not _are_scores(values),
        classes=values.shape[1] - (said == "detr"),
    )


def _named_like(words: Sequence[str], outputs: Outputs, *, several: bool = False) -> str | None:
    """The only output, or the only one whose name has one of these words and not "raw"."""
    if len(outputs) == 1 and not several:
        return next(iter(outputs))
    fits = [key for key in outputs if any(word in key.lower() for word in words) and "raw" not in key.lower()]
    return fits[0] if len(fits) == 1 else None


def _by_values(samples: Sequence[Outputs], names: list[str]) -> tuple[str | None, str | None]:
    """Of outputs without telling names, that of the labels and that of the scores: whole numbers, and the other."""
    if len(names) != 2:
        return None, None
    values = [torch.cat([each[name].reshape(-1).float() for each in samples]) for name in names]
    whole = [bool((each == each.round()).all()) for each in values]
    if whole[0] != whole[1]:
        return (names[0], names[1]) if whole[0] else (names[1], names[0])
    beyond = [bool((each > 1).any()) for each in values]
    # where both are whole numbers up to 1, TensorFlow's order: classes, then scores
    return (names[1], names[0]) if beyond[1] and not beyond[0] else (names[0], names[1])


def _are_finished(rows: torch.Tensor) -> bool:
    """Whether rows (n, 6) are corners, score and class, and not what a network has for every place of the picture."""
    label = rows[:, 5]
    there = rows[rows[:, 4] > 0]
    return (
        bool(((label - label.round()).abs() < _NO_SCORE).all() and (label >= -1).all())
        and _are_scores(rows[:, 4:5])
        and bool((there[:, 2:4] >= there[:, :2] - _NO_SCORE).all())
    )


def _are_scores(values: torch.Tensor) -> bool:
    return values.numel() == 0 or bool((values >= -_NO_SCORE).all() and (values <= 1 + _NO_SCORE).all())


def _are_shares(boxes: torch.Tensor) -> bool:
    """Whether coordinates are shares of the sides; of boxes that are all 0 nothing is known."""
    return bool(boxes.numel() and boxes.abs().max() <= _SHARES_UPTO and boxes.abs().max() > 0)


def _are_undecoded(rows: torch.Tensor, cells: int, size: Size) -> bool:
    """Whether the first four columns are offsets in cells and logarithms, and not middles and sides.

    Then sides may be below 0, and middles do not grow with the columns of the grid.

    Args:
        rows: float32 (N * M, columns).
        cells: M.
        size: height and width of the network's input.
    """
    if bool((rows[:, 2:4] < -_NO_SCORE).any()):
        return True
    strides = _strides(cells, size)
    if not strides:
        return False
    places = _on_grid(torch.zeros(1, cells, 4), size, strides)[0, :, 0].to(rows)
    middles = rows[:, 0].view(-1, cells).mean(dim=0)
    return float(torch.corrcoef(torch.stack([places, middles]))[0, 1]) < _FOLLOWS


def _strides(cells: int, size: Size) -> tuple[int, ...]:
    """The strides whose grids together have so many cells, the fewest and the usual ones first; none if none do."""
    whole = [stride for stride in _STRIDES if not size[0] % stride and not size[1] % stride]
    sets = [(8, 16, 32), *(each for number in (1, 2, 3, 4) for each in combinations(whole, number))]
    fits = (each for each in sets if sum((size[0] // s) * (size[1] // s) for s in each) == cells)
    return next(fits, ())


def _on_grid(boxes: torch.Tensor, size: Size, strides: Sequence[int]) -> torch.Tensor:
    """Middles and sides in pixels from offsets in cells and logarithms, (N, M, 4)."""
    cells, scale = [], []
    for stride in strides:
        rows, columns = torch.meshgrid(torch.arange(size[0] // stride), torch.arange(size[1] // stride), indexing="ij")
        cells.append(torch.stack([columns, rows], dim=-1).reshape(-1, 2))
        scale.append(torch.full((len(cells[-1]), 1), stride))
    grid, scales = torch.cat(cells).to(boxes), torch.cat(scale).to(boxes)
    return torch.cat([(boxes[..., :2] + grid) * scales, boxes[..., 2:].exp() * scales], dim=-1)


def _with_batch(tensor: torch.Tensor, ndim: int) -> torch.Tensor:
    """With an axis for the only image, where it was left out."""
    return tensor[None] if tensor.ndim == ndim - 1 else tensor
