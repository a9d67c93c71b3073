"""Keras networks, in HDF5 files (.h5, also of Keras 2) or archives (.keras), run by Keras on torch."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.graphs import check_sides
from diffgen.models.model_settings import ModelSettings
from diffgen.models.untrusted import KerasBuilder, UntrustedError, check_hdf5
from diffgen.models.wording import reason


class KerasModel(BlackBox):
    """A network with one image input. Opening it runs nothing that is in the file.

    Args:
        settings: name, device and so on. For a network that takes uint8, ``scale`` becomes "0..255".
        archive: whether it is a .keras archive; else an HDF5 file.

    Raises:
        UserError: Keras is missing or runs on something else than torch, the file cannot be read, or the network has
            parts that could do more than compute, or takes something else than images.
    """

    format = "a Keras model"

    def __init__(self, path: Path, settings: ModelSettings, *, archive: bool) -> None:
        super().__init__(settings)
        self._keras = _keras(path)
        self._place = str(settings.device)
        self._model = self._opened(path, archive=archive)
        inputs = self._model.inputs
        self._declare_input(
            [tuple(each.shape) for each in inputs],
            mend="save it so that it takes (N, H, W, C)",
            bytes_alone=any(each.dtype == "uint8" for each in inputs),
        )

    def _ask(self, batch: torch.Tensor) -> object:
        check_sides(self._sides, tuple(batch.shape[1:]))
        with self._keras.device(self._place):
            return self._model(batch.to(torch.uint8) if self._takes_bytes else batch, training=False)

    def _opened(self, path: Path, *, archive: bool) -> Any:
        try:
            with warnings.catch_warnings(), self._keras.device(self._place):
                warnings.simplefilter("ignore")  # advice for those who build networks
                return _from_archive(path) if archive else _from_hdf5(path)
        except UserError:
            raise
        except UntrustedError as error:
            raise UserError(
                f"{path} is a Keras model that is not opened because {error}; export it to ONNX where it was made, "
                f'with model.export("{path.stem}.onnx", format="onnx").'
            ) from error
        except Exception as error:  # zipfile, h5py and Keras raise a dozen types for damaged files
            raise UserError(
                f"{path} is a Keras model that Keras {self._keras.__version__} cannot read ({reason(error)}); save it "
                "again with model.save."
            ) from error


def _keras(path: Path) -> Any:
    """Keras, on torch. UserError if it is missing, or was imported before on something else."""
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "torch"
    try:
        import h5py  # noqa: F401
        import keras
    except ImportError as error:
        raise UserError(
            f"{path} is a Keras model, and asking it needs Keras; run pip install 'diffgen[keras]'."
        ) from error
    if keras.config.backend() != "torch":
        raise UserError(
            f"{path} is a Keras model, but Keras was imported on {keras.config.backend()} before; set the environment "
            "variable KERAS_BACKEND to torch."
        )
    return keras


def _from_archive(path: Path) -> Any:
    import h5py

    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read("config.json"))
        about = json.loads(archive.read("metadata.json"))
        weights = _FileInMemory(archive.read(_FileInMemory.NAME))
    with h5py.File(weights) as file:
        numbers = check_hdf5(file, weights.getbuffer().nbytes)
    model = KerasBuilder(str(about["keras_version"]), numbers).model(description)
    model.load_weights(weights)
    return model


class _FileInMemory(io.BytesIO):
    """Weights that were read already, with the name by which Keras tells how they are stored."""

    NAME = "model.weights.h5"

    def __str__(self) -> str:
        return self.NAME


def _from_hdf5(path: Path) -> Any:
    import h5py

    with h5py.File(path) as file:
        numbers = check_hdf5(file, path.stat().st_size)
        version, backend = (_text(file.attrs.get(name, "")) for name in ("keras_version", "backend"))
        if version.startswith("1.") or backend == "theano":
            raise UserError(
                f"{path} is a Keras model of Keras 1 or of Theano; save it again with Keras 2 on TensorFlow."
            )
        model = KerasBuilder(version, numbers).model(json.loads(_text(file.attrs["model_config"])))
        stored = file["model_weights"]
        groups = {name: stored[name] for name in _names(stored, "layer_names")}
        # By name: the order of layers in branches is not the same in each version of Keras.
        layers = {layer.name: layer for layer in model.layers if layer.weights}
        filled = {name for name, group in groups.items() if _names(group, "weight_names")}
        if filled != set(layers):
            odd = sorted(filled ^ set(layers))[0]
            raise ValueError(f"its network and its weights differ in the layer {odd[:60]!r}")
        for name, layer in layers.items():
            values = [groups[name][each][()] for each in _names(groups[name], "weight_names")]
            for variable, value in zip([*layer.trainable_weights, *layer.non_trainable_weights], values, strict=True):
                if tuple(variable.shape) != value.shape:
                    raise ValueError(f"the layer {name[:60]!r} wants weights {variable.shape} but has {value.shape}")
                variable.assign(value)
    return model


def _names(group: Any, attribute: str) -> list[str]:
    """A list of names in the attributes of a group; Keras divides long ones."""
    if attribute in group.attrs:
        return [_text(name) for name in group.attrs[attribute]]
    names: list[str] = []
    while f"{attribute}{len(names)}" in group.attrs:
        names.append(f"{attribute}{len(names)}")
    return [_text(name) for chunk in names for name in group.attrs[chunk]]


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
