"""Small torch networks as Keras networks with the same weights, and in the files of Keras 2."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

os.environ["KERAS_BACKEND"] = "torch"  # read when Keras is imported


def keras_network(network: nn.Sequential, image_shape: tuple[int, int, int]) -> Any:
    """A keras.Sequential that takes (N, H, W, C); Keras must run on torch.

    Args:
        network: convolutions (without padding or with one that keeps the size), ReLU, max pooling of 2, one flatten,
            dense layers.
        image_shape: (C, H, W).
    """
    import keras

    channels, height, width = image_shape
    layers: list[Any] = [keras.layers.Input((height, width, channels))]
    weights: list[list[Any]] = []
    flat_from: tuple[int, ...] = ()
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            padding = "valid" if layer.padding == (0, 0) else "same"
            layers.append(keras.layers.Conv2D(layer.out_channels, layer.kernel_size, layer.stride, padding))
            assert layer.bias is not None
            weights.append([layer.weight.detach().permute(2, 3, 1, 0).numpy(), layer.bias.detach().numpy()])
        elif isinstance(layer, nn.Linear):
            kernel = layer.weight.detach()
            if flat_from:  # torch flattens channels first
                kernel = kernel.reshape(-1, *flat_from).permute(0, 2, 3, 1).reshape(len(kernel), -1)
                flat_from = ()
            layers.append(keras.layers.Dense(layer.out_features))
            weights.append([kernel.T.numpy(), layer.bias.detach().numpy()])
        elif isinstance(layer, nn.ReLU):
            layers.append(keras.layers.ReLU())
        elif isinstance(layer, nn.MaxPool2d):
            layers.append(keras.layers.MaxPooling2D(2))
        elif isinstance(layer, nn.Flatten):
            with torch.inference_mode():
                until = network[: list(network).index(layer)]
                flat_from = tuple(until(torch.zeros(1, *image_shape)).shape[1:])
            layers.append(keras.layers.Flatten())
    model = keras.Sequential(layers)
    model.set_weights([array for pair in weights for array in pair])
    return model


def branched_network(image_shape: tuple[int, int, int], classes: int) -> Any:
    """A network with branches, a layer that is called twice, and a frozen network as a layer.

    Args:
        image_shape: (H, W, C).
    """
    import keras

    layers = keras.layers
    inner = keras.Sequential(
        [
            layers.Input((image_shape[0] // 2, image_shape[1] // 2, 8)),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(6.0),
        ]
    )
    inner.trainable = False
    shared = layers.Conv2D(8, 1)
    images = layers.Input(image_shape)
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Add()([x, shared(shared(inner(x)))])
    fine = layers.SeparableConv2D(6, 3, padding="same", activation="gelu")(x)
    x = layers.Concatenate()([fine, layers.AveragePooling2D(3, 1, "same")(x)])
    x = layers.LeakyReLU(0.2)(layers.BatchNormalization()(x, training=False))
    weights = layers.Dense(14, activation="hard_sigmoid")(layers.GlobalMaxPooling2D(keepdims=True)(x))
    x = layers.GlobalAveragePooling2D()(layers.Multiply()([x, weights]))
    return keras.Model(images, layers.Dense(classes, activation="softmax")(layers.Dropout(0.3)(x)))


def save_as_keras2(model: Any, path: Path) -> None:
    """Write a keras.Sequential as Keras 2.3 wrote it: HDF5 with ``batch_input_shape`` and no modules.

    The settings and the names of the weights are those of the files in github.com/youhanmo/DRFuzz.
    """
    import h5py

    entries = []
    for number, layer in enumerate(model.layers):
        config = {name: value for name, value in layer.get_config().items() if name in _SETTINGS}
        if "kernel_size" in config:
            initializer = {"class_name": "VarianceScaling", "config": {"scale": 1.0, "mode": "fan_avg", "seed": None}}
            config |= {"kernel_initializer": initializer, "kernel_regularizer": None, "data_format": "channels_last"}
        if number == 0:
            config["batch_input_shape"] = list(model.input_shape)
        entries.append({"class_name": type(layer).__name__, "config": {**config, "trainable": True}})
    description = {"class_name": "Sequential", "config": {"name": "sequential_1", "layers": entries}}
    with h5py.File(path, "w") as file:
        stored = file.create_group("model_weights")
        for attributes in (file.attrs, stored.attrs):
            attributes["backend"], attributes["keras_version"] = b"tensorflow", b"2.3.1"
        file.attrs["model_config"] = json.dumps(description).encode()
        stored.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = stored.create_group(layer.name)
            names = [f"{layer.name}/{variable.name}:0" for variable in layer.weights]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, variable in zip(names, layer.weights, strict=True):
                group[name] = variable.numpy()


_SETTINGS = (
    *("name", "filters", "kernel_size", "strides", "padding", "pool_size", "units", "activation", "use_bias"),
    *("max_value", "negative_slope", "threshold"),
)
