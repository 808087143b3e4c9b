"""The embedded model and its test images."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.feeds import Feeds

DATA = Path(__file__).parent / "demo_data"
LENET5 = DATA / "lenet5_int8_qdq_s8.onnx"
IMAGES = DATA / "mnist_1000.npz"
IMAGE_COUNT = 1000
INPUT, OUTPUT = "image", "logits"


def load_images(count: int) -> tuple[list[Feeds], NDArray[np.uint8]]:
    """Return the first images as requests for `LENET5`, and their labels uint8[count].

    Pixels are scaled to float32[1, 1, 28, 28] in [0, 1], as in training.
    """
    with np.load(IMAGES) as data:
        images, labels = data["x"][:count], data["y"][:count]
    scaled = images.astype(np.float32).reshape(-1, 1, 1, 28, 28) / np.float32(255)
    return [{INPUT: image} for image in scaled], labels


def accuracy(
    logits: np.ndarray[tuple[int, int], np.dtype[np.float32]], labels: NDArray[np.uint8]
) -> float:
    """Return the share of logits[n, 10] whose greatest is the label's."""
    return float((logits.argmax(axis=1) == labels).mean())
