"""A network, its 8-bit version and images, as the other examples presuppose them.

    python onnx_pair.py
    diffgen compare models/float.onnx models/int8.onnx --data val/ --budget 10000q

The network is trained on one half of the digits that ship with scikit-learn; the other half is written to ``val/`` as
PNG files, a folder for each class. With models and images of your own nothing of this is needed.
"""

from pathlib import Path

from PIL import Image

import diffgen
from diffgen.data import load
from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier


def write_images(folder: Path) -> None:
    """The half of the digits that no network here is trained on."""
    digits = load("digits:test")
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        file = folder / str(label) / f"{number:04d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(file)


def main() -> None:
    models = Path("models")
    models.mkdir(exist_ok=True)
    write_images(Path("val"))
    network = train_classifier(convolutional_classifier(10), load("digits:train"), seed=0)
    save_onnx(network, models / "float.onnx")
    made = diffgen.quantize(
        "models/float.onnx", data="val/", calibration_data="digits:train", output="models/int8.onnx"
    )
    print(f"{made.bytes[0]:,} bytes as float32, {made.bytes[1]:,} in 8 bits")


if __name__ == "__main__":
    main()
