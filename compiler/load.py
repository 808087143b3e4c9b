"""`load`: an ONNX file to the canonical graph."""

from pathlib import Path

from tilewright.compiler.frontend.load import load_onnx
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.passes.canonicalize import canonicalize
from tilewright.hw.errors import ModelError


def load(path: Path | str) -> Graph:
    """Return the canonical graph of an ONNX file; `graph.model` holds the file's bytes.

    Raises:
        ModelError: the file cannot be read, or the model is not one that can be compiled.
    """
    graph = load_onnx(path)
    try:
        return canonicalize(graph)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
