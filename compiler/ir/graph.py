"""The graph IR: a typed, functional dataflow graph of operators.

Operators carry ONNX's names and meaning.  A quantized operator is the same node on integer
tensors whose types carry a scale and zero point: `Conv` on int8 in and out *is* the
quantized convolution, exactly as `docs/numerics.md` defines it.  QDQ and QLinear models
import to this one form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.compiler.ir.layout import Layout
from tilewright.hw.errors import ModelError
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, Dim, TensorType


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor of the graph; `layout` is how it lies packed where that was chosen."""

    name: str
    type: TensorType
    layout: Layout | None = None

    @property
    def dtype(self) -> str:
        """Element type, a NumPy name."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Dimensions: sizes or symbols."""
        return self.type.shape


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application.

    Inputs and outputs are value names; "" stands for an optional input that is absent.
    `origin` names the ONNX nodes it stands for, in order: errors, reports and bounds use it.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    subgraphs: Mapping[str, "Graph"] = field(default_factory=dict)
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order, the type of every value, and the constants.

    Every value has one definition: an input, a constant, or one node's output.  `origins` gives
    the operator of every ONNX node of the model (its name made unique), in file order; `model`
    is the model file itself, with external data inside.  Passes hand both on.
    """

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, Array]
    origins: Mapping[str, str] = field(default_factory=dict)
    model: bytes = b""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The graph's inputs, in order."""
        return tuple(self.values[name] for name in self.input_names)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The graph's outputs, in order."""
        return tuple(self.values[name] for name in self.output_names)

    def type(self, name: str) -> TensorType:
        """Return the type of a value."""
        return self.values[name].type

    def producer(self, name: str) -> Node | None:
        """Return the node that defines a value, or None for inputs and constants."""
        return next((node for node in self.nodes if name in node.outputs), None)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read a value, in order."""
        return tuple(node for node in self.nodes if name in node.inputs)

    def __str__(self) -> str:
        """Return the readable text form, one line a node."""
        lines = [f"graph {self.name}("]
        lines += [f"  {name}: {self.type(name)}," for name in self.input_names]
        lines.append(f") -> ({', '.join(self.output_names)}) {{")
        lines += [f"  const {name}: {self.type(name)}" for name in self.constants]
        for node in self.nodes:
            attributes = "".join(
                f" {key}={value}" for key, value in sorted(node.attributes.items())
            )
            outputs = ", ".join(f"{name}: {self.type(name)}" for name in node.outputs)
            lines.append(
                f"  {outputs} = {node.op}({', '.join(node.inputs)}){attributes}  # {node.name}"
            )
        return "\n".join([*lines, "}"])


def verify(graph: Graph) -> None:
    """Check definitions, order and types; run before and after each pass.

    Raises:
        ModelError: a value that is read before it is defined, defined twice, or has no type.
    """
    defined = {*graph.input_names, *graph.constants}
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in defined:
                raise ModelError(
                    f"{node.name}: {node.op} reads {name!r}, which nothing before it defines"
                )
        for name in node.outputs:
            if name in defined:
                raise ModelError(f"{node.name}: {node.op} defines {name!r} a second time")
            defined.add(name)
    for name in graph.output_names:
        if name not in defined:
            raise ModelError(f"graph {graph.name}: output {name!r} is not defined by any node")
    for name in defined:
        if name not in graph.values:
            raise ModelError(f"graph {graph.name}: {name!r} has no type")
    for name, array in graph.constants.items():
        kind = graph.type(name)
        if (str(array.dtype), array.shape) != (kind.dtype, kind.shape):
            raise ModelError(
                f"graph {graph.name}: constant {name!r} is {array.dtype}{list(array.shape)},"
                f" not {kind}"
            )
