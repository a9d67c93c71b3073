"""A run that is opened again: its settings, models, real images and source of images, as it was started with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from diffgen.comparison.black_boxes import StoredModel, stored_model
from diffgen.comparison.classes import without_labels
from diffgen.comparison.image_source import check_unchanged, prepare_source
from diffgen.comparison.jury import stored_jury
from diffgen.comparison.label_order import in_order
from diffgen.comparison.machine import resolve_batch_size, resolve_device
from diffgen.comparison.named_settings import stored_settings
from diffgen.comparison.real_data import load_stored
from diffgen.config import CompareConfig, ModelSpec, roles
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.jury import Recogniser
from diffgen.models import BlackBox
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.types import ImageSet


class OpenedRun:
    """What a run was started with, found again; everything is looked at before it is used.

    Args:
        device: where to compute, or None for the run's own device.

    Raises:
        UserError: its settings are damaged, or there is no such device.
    """

    def __init__(self, folder: RunFolder, device: str | None = None) -> None:
        self.folder = folder
        self.config: CompareConfig = stored_settings(folder)
        self.device: torch.device = resolve_device(device or self.config.device)

    @cached_property
    def batch_size(self) -> int:
        """How many images a network is handed at once."""
        return resolve_batch_size(self.config.batch_size, self.device)

    def models(
        self, given: Sequence[Any] = (), *, options: Sequence[ModelSpec] = (), looks_anew: bool = False
    ) -> tuple[BlackBox, ...]:
        """The files and addresses that the run was started with, or those ``given`` in their place.

        A run's own model is opened with the run's own settings. Another one is opened as ``options`` say, then as its
        sidecar says, then as the run's own. Code that the run was allowed to run is not run again, and nothing is sent
        to an address that it names, unless ``options`` say so: the folder may come from a stranger. A model that the
        run asked one image at a time is asked so again, unless the caller ``looks_anew`` how it is to be asked.

        Args:
            given: other models, or None in the place of those that the run names; none at all: the run's.
            options: one for each model, or none.

        Raises:
            UserError: a model of the run's own is gone or has changed, it was a Python object and none is given, or it
                can only be opened by what ``options`` do not allow.
        """
        folder, letters = self.folder, sorted(self.folder.manifest["files"])
        specs = self.config.models or (ModelSpec(),) * len(letters)
        if letters != list(roles(specs)):
            raise UserError(
                f"The run folder {folder.path} is damaged: its settings and its manifest name other models."
            )
        for what, each in (("models", given), ("options", options)):
            if each and len(each) != len(specs):
                raise UserError(f"The run {folder.path} has {len(specs)} models, but {what} for {len(each)} are given.")
        about = zip(letters, specs, options or (ModelSpec(),) * len(specs), strict=True)
        stored = [StoredModel(folder, role, before, consent) for role, before, consent in about]
        how: dict[str, Any] = {"device": self.device, "batch_size": self.batch_size, "looks_anew": looks_anew}
        return tuple(
            stored_model(each, model, **how) for each, model in zip(stored, given or (None,) * len(specs), strict=True)
        )

    def data(self, given: Any, *, purpose: str, progress: Progress) -> ImageSet:
        """The run's real images.

        Args:
            given: where they are now, or None: where they were.
            purpose: what they are for: "resume it".
            progress: where to say how far it is.

        Raises:
            UserError: they were in memory and are not given, are gone, or have changed.
        """
        known = self.folder.manifest["data"]
        where = given if given is not None else known["path"]
        if where is None:
            raise UserError(f"The run {self.folder.path} was given its images in memory; give them again to {purpose}.")
        images = load_stored(where, self.config, progress)
        if images.digest != known["sha256"]:
            raise UserError(
                f"The data {images.source} is not what the run {self.folder.path} was made with; name that."
            )
        images = in_order(images, known.get("label_order", ()))
        return without_labels(images) if self.config.data_labels == "ignore" else images

    def recogniser(self, split: DataSplit, progress: Progress) -> Recogniser | None:
        """The run's jury; see :func:`diffgen.comparison.jury.stored_jury`. UserError as there."""
        return stored_jury(self.folder, split, self.config, device=self.device, progress=progress)

    def source(self, split: DataSplit, context: FamilyContext) -> ImageSource:
        """What drew the run's images. UserError if another one is in its place, which draws other pictures."""
        check_unchanged(self.config.generator, self.folder)
        made = prepare_source(split, self.config, context)
        if (None if made.artifact is None else file_digest(made.artifact)) != self.folder.manifest["gan"]:
            raise UserError(
                f"The network that drew the pictures of the run {self.folder.path} is no longer in the cache, and the "
                "one there now draws other pictures; run the comparison again."
            )
        return made
