"""The Python API as its users call it."""

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.demo import load_images


def test_every_public_name_is_there() -> None:
    assert all(hasattr(tw, name) for name in tw.__all__)
    with pytest.raises(AttributeError, match=r"^module 'tilewright' has no attribute 'missing'$"):
        _ = tw.missing


def test_a_graph_tells_its_inputs_and_saves_its_model(tmp_path: Path, lenet5_path: Path) -> None:
    model = tw.load(lenet5_path)
    image, logits = model.inputs[0], model.outputs[0]
    assert (image.name, image.dtype, image.shape) == ("image", "float32", ("N", 1, 28, 28))
    assert (logits.name, logits.shape) == ("logits", ("N", 10))
    model.save(tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx").read_bytes() == lenet5_path.read_bytes()


def test_compile_run_save_and_load(tmp_path: Path, lenet5_path: Path) -> None:
    feeds, labels = load_images(2)
    program = tw.compile(lenet5_path, config=tw.Config.preset("tiny"), target="accelerator,cpu")
    run = program.run(feeds[0], engine="functional", tensors=True)
    assert run.outputs["logits"].argmax() == labels[0]
    assert run.report.config["name"] == "tiny"
    assert run.tensors["relu_3_QuantizeLinear_Output"].shape == (1, 6, 28, 28)
    program.save(tmp_path / "p.twp")
    again = tw.load_program(tmp_path / "p.twp").run(feeds[0], engine="functional")
    assert np.array_equal(again.outputs["logits"], run.outputs["logits"])


def test_a_session_takes_any_batch_and_names_its_outputs(lenet5_path: Path) -> None:
    feeds, labels = load_images(5)
    session = tw.InferenceSession(lenet5_path, config="tiny", engine="functional")
    images = np.concatenate([feed["image"] for feed in feeds])
    (logits,) = session.run(None, {"image": images})
    assert logits.argmax(axis=1).tolist() == labels.tolist()
    (single,) = session.run(["logits"], feeds[0])
    assert np.array_equal(single, logits[:1])
    with pytest.raises(
        tw.ModelError, match=r"^output 'x': no such output; the model's are logits$"
    ):
        session.run(["x"], feeds[0])
