"""Growing a graph node by node: unique names, inferred types, constants folded on the way."""

from collections.abc import Mapping, Sequence

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import OPERATORS, Fusion, infer_types
from tilewright.hw.errors import ModelError
from tilewright.runtime.host import KERNELS
from tilewright.runtime.host.layout import shape_between
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, Quantization, TensorType

KEEPS_QUANTIZATION = {name for name, op in OPERATORS.items() if op.fusion is Fusion.LAYOUT} | {
    *("Relu", "Clip", "MaxPool", "Pad", "Gather")
}
"""On stored integers these leave scale and zero point as they are."""


class GraphBuilder:
    """A graph under construction; `graph()` ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.origins: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._node_names: set[str] = set()

    def reserve(self, names: Sequence[str]) -> None:
        """Keep `fresh` from inventing names that the model defines later."""
        self._reserved.update(names)

    def fresh(self, name: str) -> str:
        """Return a value name that is not in use: `name`, or `name` with a number."""
        candidate, count = name, 1
        while candidate in self._reserved or candidate in self.values:
            candidate, count = f"{name}.{count}", count + 1
        self._reserved.add(candidate)
        return candidate

    def origin(self, name: str, op: str) -> str:
        """Register an ONNX node and return its name, made unique and readable."""
        base = name or f"{op}_{len(self.origins)}"
        unique, count = base, 1
        while unique in self.origins:
            unique, count = f"{base}.{count}", count + 1
        self.origins[unique] = op
        return unique

    def type(self, name: str) -> TensorType:
        """Return the type of a value."""
        return self.values[name].type

    def define(self, name: str, kind: TensorType) -> None:
        """Give a value its type."""
        self.values[name] = Value(name, kind)

    def constant(self, name: str, array: Array, quantization: Quantization | None = None) -> str:
        """Add a constant and return its name."""
        self.constants[name] = array
        self.define(name, TensorType(str(array.dtype), array.shape, quantization))
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        origin: str,
        quantization: Quantization | None = None,
        dtype: str | None = None,
    ) -> None:
        """Append a node, or its value when every input is a constant.

        `dtype` replaces the inferred element type.  DequantizeLinear of a constant stays: it
        carries weights to the operator they belong to.
        """
        table = dict(attributes or {})
        kinds = tuple(self.type(name) if name else None for name in inputs)
        types = infer_types(op, origin, kinds, table)
        if op in KEEPS_QUANTIZATION and kinds and kinds[0] is not None:
            quantization = kinds[0].quantization
        types = tuple(TensorType(dtype or t.dtype, t.shape, quantization) for t in types)
        known = all(name in self.constants for name in inputs if name)
        x = kinds[0] if kinds else None
        if op == "Shape" and x is not None and all(isinstance(dim, int) for dim in x.shape):
            self.constant(outputs[0], shape_between(x.static_shape, table))
        elif known and op != "DequantizeLinear" and op in KERNELS:
            arrays = [self.constants[name] if name else None for name in inputs]
            results = KERNELS[op](arrays, table, kinds, types)
            for name, array in zip(outputs, results, strict=True):
                self.constant(name, array, quantization)
        else:
            name = self._node_name(origin, op)
            self.nodes.append(
                Node(op, name, tuple(inputs), tuple(outputs), table, origin=(origin,))
            )
            for output, kind in zip(outputs, types, strict=True):
                self.define(output, kind)

    def _node_name(self, origin: str, op: str) -> str:
        name = origin if origin not in self._node_names else f"{origin}.{op}.{len(self.nodes)}"
        self._node_names.add(name)
        return name

    def quantize(self, x: str, y: str, kind: TensorType, *, origin: str) -> None:
        """Append y = QuantizeLinear(x) with the element type and quantization of `kind`."""
        attributes = {"dtype": kind.dtype}
        self.node(
            "QuantizeLinear", [x], [y], attributes, origin=origin, quantization=kind.quantization
        )

    def dequantize(self, x: str, y: str, quantization: Quantization, *, origin: str) -> None:
        """Append y = DequantizeLinear(x), x being given this quantization.

        A value that has another one already is read through a Reinterpret.
        """
        x = self.with_quantization(x, quantization, origin=origin)
        self.node("DequantizeLinear", [x], [y], origin=origin)

    def with_quantization(self, x: str, quantization: Quantization, *, origin: str) -> str:
        """Return a value with x's integers and this quantization."""
        kind = self.type(x)
        if kind.quantization in {None, quantization}:
            self.define(x, TensorType(kind.dtype, kind.shape, quantization))
            return x
        y = self.fresh(f"{x}.as")
        if x in self.constants:
            return self.constant(y, self.constants[x], quantization)
        self.nodes.append(
            Node(
                "Reinterpret", self._node_name(origin, "Reinterpret"), (x,), (y,), origin=(origin,)
            )
        )
        self.define(y, TensorType(kind.dtype, kind.shape, quantization))
        return y

    def graph(self, inputs: Sequence[str], outputs: Sequence[str], *, model: bytes) -> Graph:
        """Return the finished graph; quantizations spread over operators that keep them."""
        self._spread_quantization()
        for name in outputs:
            if name not in self.values:
                raise ModelError(f"graph {self.name}: output {name!r} is not defined by any node")
        return Graph(
            self.name,
            tuple(inputs),
            tuple(outputs),
            tuple(self.nodes),
            dict(self.values),
            dict(self.constants),
            dict(self.origins),
            model,
        )

    def _spread_quantization(self) -> None:
        spreading = (KEEPS_QUANTIZATION | {"Concat"}) - {"Reinterpret"}
        keeping = [n for n in self.nodes if n.op in spreading]
        for node in [*reversed(keeping), *keeping]:
            parts = node.inputs if node.op == "Concat" else node.inputs[:1]
            tensors = [*parts, *node.outputs]
            known = next((q for t in tensors if (q := self.type(t).quantization)), None)
            for tensor in tensors:
                kind = self.type(tensor)
                if known and kind.quantization is None and kind.dtype in {"int8", "uint8"}:
                    self.define(tensor, TensorType(kind.dtype, kind.shape, known))
