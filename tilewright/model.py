"""A model as its user holds it: the imported graph, and the ONNX file it came from."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.compiler import load as onnx_loader
from tilewright.compiler.ir import graph as ir
from tilewright.runtime.program import write_whole


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A model that can be compiled; `print` shows its operators, types and quantization."""

    ir: ir.Graph

    @property
    def inputs(self) -> tuple[ir.Value, ...]:
        """Inputs: name, dtype, shape."""
        return self.ir.inputs

    @property
    def outputs(self) -> tuple[ir.Value, ...]:
        """Outputs: name, dtype, shape."""
        return self.ir.outputs

    def save(self, path: Path | str) -> None:
        """Write the model as one ONNX file.

        Raises:
            ModelError: the file cannot be written.
        """
        write_whole(Path(path), self.ir.model)

    def __str__(self) -> str:
        """Return the graph as text."""
        return str(self.ir)


def load(path: Path | str) -> Graph:
    """Read an ONNX model.

    Raises:
        ModelError: no such file, not a whole ONNX file, or something in it that is not supported.
    """
    return Graph(onnx_loader.load(path))
