"""A Keras network and the same with its small weights set to zero, in two formats of Keras.

    python keras_pair.py
    diffgen compare models/dense.keras models/pruned.h5 --data val/ --budget 10000q

Needs ``pip install 'diffgen[keras]'``. ``val/`` is that of onnx_pair.py.
"""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from onnx_pair import write_images

from diffgen.data import load


def main() -> None:
    write_images(Path("val"))
    digits = load("digits:train")
    # N x H x W x C in [0, 1], as diffgen hands it to Keras models when nobody says otherwise
    pixels = digits.images.transpose(0, 2, 3, 1).astype("float32") / 255
    keras.utils.set_random_seed(0)
    layers = [keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(64, activation="relu")]
    network = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
    network.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy")
    network.fit(pixels, digits.labels, epochs=12, batch_size=64, verbose=0)
    Path("models").mkdir(exist_ok=True)
    network.save("models/dense.keras")
    network.set_weights([pruned(each) for each in network.get_weights()])
    network.save("models/pruned.h5")


def pruned(weights: np.ndarray) -> np.ndarray:
    """The smaller half of the weights set to zero."""
    return np.where(np.abs(weights) < np.median(np.abs(weights)), 0, weights)


if __name__ == "__main__":
    main()
