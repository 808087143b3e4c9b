"""A model as its user holds it: the imported graph, and the ONNX file it came from."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilewright.compiler import load as onnx_loader
from tilewright.compiler.ir.graph import Graph as IrGraph
from tilewright.compiler.ir.graph import Value
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.hw.errors import ModelError
from tilewright.runtime.files import write_whole
from tilewright.runtime.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A model that can be compiled; `print` shows its operators, types and quantization."""

    ir: IrGraph

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Inputs: name, dtype, shape."""
        return self.ir.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
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


def reference_graph(program: Program) -> IrGraph:
    """Return the model that a program was compiled from, its symbols replaced by sizes.

    Raises:
        ModelError: the program holds none.
    """
    if not program.model:
        raise ModelError(f"program {program.name}: holds no model; compile it again from its .onnx")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{program.name}.onnx"
        path.write_bytes(program.model)
        graph = load(path)
    shapes = {name: program.tensor(name).type.static_shape for name in program.inputs}
    ranks = {value.name: len(value.shape) for value in graph.inputs}
    if ranks != {name: len(shape) for name, shape in shapes.items()}:
        raise ModelError(f"program {program.name}: holds another model; compile it again")
    sizes = {
        dim: size
        for value in graph.inputs
        for dim, size in zip(value.shape, shapes[value.name], strict=True)
        if isinstance(dim, str)
    }
    return bind_shapes(graph.ir, sizes)


def load(path: Path | str) -> Graph:
    """Read an ONNX model.

    Raises:
        ModelError: no such file, not a whole ONNX file, or something in it that is not supported.
    """
    return Graph(onnx_loader.load(path))
