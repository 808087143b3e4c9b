"""The demo: every value compared, files written, status by the outcome."""

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.demo import IMAGE_COUNT, accuracy, load_images


def test_demo_compares_every_value_and_writes_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["demo", "--config", "tiny", "--samples", "20", "-o", str(tmp_path / "demo")])
    text = capsys.readouterr().out
    table = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert table["check"]["exact"]["mismatched"] == 0
    assert table["check"]["exact"]["compared"] == 20 * 9_008
    assert table["check"]["onnxruntime"]["top1_agreement"] == 1.0
    assert table["accuracy"] == 1.0
    assert table["cycles_total"] == 20 * table["cycles"]
    assert "of 20 images: 0 differ from exact arithmetic; onnxruntime agrees on 100.0%" in text
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        *("layers.png", "report.json", "roofline.png", "timeline.png"),
    ]


def test_the_images_are_requests_in_the_order_of_their_labels() -> None:
    feeds, labels = load_images(IMAGE_COUNT)
    assert (len(feeds), labels.shape) == (IMAGE_COUNT, (IMAGE_COUNT,))
    image = feeds[0]["image"]
    assert (image.dtype, image.shape, image.min(), image.max()) == (
        *(np.float32, (1, 1, 28, 28), 0.0, 1.0),
    )


def test_accuracy_is_the_share_of_right_classes() -> None:
    logits = np.eye(10, dtype=np.float32)[[3, 4, 5, 6]]
    assert accuracy(logits, np.array([3, 4, 5, 0], np.uint8)) == 0.75


def test_more_images_than_there_are_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["demo", "--samples", "1001"])
    assert capsys.readouterr().err == "error: --samples 1001: the demo holds 1000 images\n"
