"""Make quantized operators of DequantizeLinear → operator (→ Relu, Clip) → QuantizeLinear.

After it, a real value is left only at the graph's borders and around operators that compute
on real values on the host.
"""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import OPERATORS, Fusion
from tilewright.compiler.passes.clamps import Clamp, clamp_of
from tilewright.compiler.passes.eliminate_dead import eliminate_dead
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.compiler.passes.weights import (
    BiasTerm,
    accumulator_scales,
    bias_of,
    is_per_channel,
    quantized_source,
    real_bias,
    weight_of,
)
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_float, get_int
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, Quantization, TensorType

_STORED = {"int8", "uint8"}

MAX_BIAS_ERROR = 2.0**-11
"""Steps of the output (units of the accumulator where it is real) by which rounding a bias to
whole units may move a result; beyond it the bias is added to real values, on the host."""


def _is_stored(kind: TensorType) -> bool:
    """Whether a tensor is an 8-bit activation with one scale."""
    q = kind.quantization
    return kind.dtype in _STORED and q is not None and q.axis is None


def _not_quantized(graph: Graph, node: Node) -> ModelError:
    dtype = graph.type(node.inputs[0]).dtype
    return ModelError(
        f"node {node.origin[0]!r}: {node.op} works on {dtype}: the model is not quantized;"
        " give an int8 model (QDQ or QLinear form)"
    )


def fuse_quantized(graph: Graph) -> Graph:
    """Fuse every chain that ends in a QuantizeLinear, then what is left of Conv, MatMul, Gemm.

    Those left keep their int32 accumulators, which a DequantizeLinear makes real.

    Raises:
        ModelError: a Conv, MatMul or Gemm on real values: the model is not quantized.
    """
    fuser = _Fuser(graph)
    for node in graph.nodes:
        if node.op == "QuantizeLinear":
            fuser.fuse_chain(node)
        elif OPERATORS[node.op].fusion is Fusion.ACCUMULATE:
            fuser.fuse_accumulators(node)
        else:
            fuser.nodes.append(node)
    return fuser.graph()


class _Fuser:
    """The new graph in the making; reads the old one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._uses = Uses(graph)
        self._values = dict(graph.values)
        self._constants: dict[str, Array] = dict(graph.constants)
        self._names: set[str] = set()
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        """Return the new graph, without what the fused chains have left behind."""
        return eliminate_dead(
            replace(
                self._graph,
                nodes=tuple(self.nodes),
                values=self._values,
                constants=self._constants,
            )
        )

    def fuse_chain(self, end: Node) -> None:
        """Fuse the chain that ends in this QuantizeLinear, or keep the QuantizeLinear."""
        clamp, chain, x = Clamp(), [end], end.inputs[0]
        node = self._uses.producer(x)
        while node and OPERATORS[node.op].fusion is Fusion.CLAMP and self._uses.is_private(x):
            clamp, x = clamp_of(node).then(clamp), node.inputs[0]
            chain.insert(0, node)
            node = self._uses.producer(x)
        if node is None or not self._fuse(node, x, clamp, chain):
            self.nodes.append(end)

    def _fuse(self, node: Node, x: str, clamp: Clamp, chain: list[Node]) -> bool:
        """Append the fused form of `node`, whose output x goes through `chain`; False if none."""
        y, kind = chain[-1].outputs[0], self._graph.type(chain[-1].outputs[0])
        if not _is_stored(kind):
            return False
        low, high = clamp.stored(kind)
        bounds: dict[str, Attribute] = {"low": low, "high": high}
        if node.op == "DequantizeLinear":
            return self._requantize(node.inputs[0], y, bounds, [node, *chain])
        return self._uses.is_private(x) and self._compute(node, y, bounds, chain)

    def _compute(self, node: Node, y: str, bounds: dict[str, Attribute], chain: list[Node]) -> bool:
        """Append the quantized form of an operator on real values; False if it has none."""
        fusion = OPERATORS[node.op].fusion
        if fusion is Fusion.ACCUMULATE:
            return self._accumulate(node, y, bounds, chain)
        if self._add_bias(node, y, bounds, chain):
            return True
        real = fusion in {Fusion.ELEMENTWISE, Fusion.POOL}
        return real and self._elementwise(node, y, bounds, chain)

    def _requantize(self, x: str, y: str, bounds: dict[str, Attribute], origin: list[Node]) -> bool:
        kind = self._values[x].type
        if not _is_stored(kind):
            return False
        name = origin[1] if len(origin) > 2 else origin[-1]
        self._append("Requantize", name, [x], y, bounds, merge_origins(origin))
        return True

    def _elementwise(
        self, node: Node, y: str, bounds: dict[str, Attribute], chain: list[Node]
    ) -> bool:
        """Average pooling and element-wise operators: real arithmetic on stored operands."""
        inputs: list[str] = []
        for name in node.inputs:
            source = quantized_source(self._uses, name)
            if source is None and name in self._constants:
                source = name
            if source is None or not name:
                return False
            inputs.append(source)
        if all(name in self._constants for name in inputs):
            return False
        if any(self._values[name].type.dtype not in {*_STORED, "float32"} for name in inputs):
            return False
        origin = merge_origins([*map(self._uses.producer, node.inputs), node, *chain])
        self._append(node.op, node, inputs, y, {**node.attributes, **bounds}, origin)
        return True

    def _add_bias(self, add: Node, y: str, bounds: dict[str, Attribute], chain: list[Node]) -> bool:
        """Fuse Conv or MatMul → Add of a constant per channel."""
        found = self._bias_term(add)
        if found is None:
            return False
        node, term = found
        return self._accumulate(node, y, bounds, [add, *chain], added=term)

    def _bias_term(self, add: Node) -> tuple[Node, BiasTerm] | None:
        if add.op != "Add":
            return None
        for x, other in (add.inputs, add.inputs[::-1]):
            node = self._uses.producer(x)
            source = quantized_source(self._uses, other) or other
            if (
                node is None
                or OPERATORS[node.op].fusion is not Fusion.ACCUMULATE
                or not self._uses.is_private(x)
                or source not in self._constants
            ):
                continue
            shape, rank = self._graph.type(x).shape, len(self._graph.type(x).shape)
            trailing = rank - 2 if node.op == "Conv" else 0
            channels = shape[rank - 1 - trailing]
            constant = self._constants[source].shape
            if isinstance(channels, int) and is_per_channel(constant, trailing, channels):
                return node, BiasTerm(other, trailing=trailing)
        return None

    def fuse_accumulators(self, node: Node) -> None:
        """Keep int32 accumulators of an operator that no chain took, as a real value."""
        y, kinds = node.outputs[0], [self._values[name].type for name in node.inputs if name]
        if not kinds[0].dtype.startswith("float"):
            self.nodes.append(node)
            return
        if not (self._uses.is_private(y) and self._ends_in_quantize(y)):
            self._accumulate(node, y, None, [])

    def _ends_in_quantize(self, x: str) -> bool:
        """Whether fuse_chain will fuse the private value x: through Add and clamps to a Q."""
        node = self._uses.consumers(x)[0]
        found = self._bias_term(node)
        if found and found[0].outputs[0] == x and self._uses.is_private(node.outputs[0]):
            node = self._uses.consumers(node.outputs[0])[0]
        while OPERATORS[node.op].fusion is Fusion.CLAMP:
            if not self._uses.is_private(node.outputs[0]):
                return False
            node = self._uses.consumers(node.outputs[0])[0]
        return node.op == "QuantizeLinear" and _is_stored(self._graph.type(node.outputs[0]))

    def _accumulate(
        self,
        node: Node,
        y: str,
        bounds: dict[str, Attribute] | None,
        chain: list[Node],
        *,
        added: BiasTerm | None = None,
    ) -> bool:
        """Append quantized Conv or MatMul with output y; without bounds, int32 made real.

        So too where rounding the bias would show: it is added behind, and the chain stays.
        """
        uses, graph = self._uses, self._graph
        x = quantized_source(uses, node.inputs[0])
        if x is None:
            raise _not_quantized(graph, node)
        if get_int(node.attributes, "transA", 0):
            raise ModelError(f"node {node.origin[0]!r}: Gemm with transA=1 is not supported")
        rank = len(graph.type(node.outputs[0]).shape)
        conv, transpose = node.op == "Conv", bool(get_int(node.attributes, "transB", 0))
        columns = len(graph.type(node.inputs[1]).shape) - 1
        axis = 0 if conv or transpose else columns
        alpha = get_float(node.attributes, "alpha", 1.0)
        weight = weight_of(graph, uses, node, axis=axis, transpose=transpose, alpha=alpha)
        if weight is None:
            return self._multiply(node, x, y, bounds, chain)
        kind = self._check_activation(node, x)
        channels = int(weight.array.shape[0 if conv else -1])
        scales = accumulator_scales(kind, weight.quantization)
        beta = get_float(node.attributes, "beta", 1.0)
        terms = [BiasTerm(name, beta) for name in node.inputs[2:3] if name]
        terms += [added] if added else []
        out = graph.type(y).quantization if bounds is not None else None
        bias = bias_of(
            graph,
            uses,
            node,
            terms,
            scales=scales,
            channels=channels,
            step=out.scale[0] if out else None,
        )
        apart = bias is not None and bias.error > MAX_BIAS_ERROR
        parts = [self._constant(f"{node.outputs[0]}.weight", weight.array, weight.quantization)]
        whole = None if bias is None or apart else bias.array
        parts.append("" if whole is None else self._constant(f"{node.outputs[0]}.bias", whole))
        attributes = dict(node.attributes) if conv else {}
        producers = [uses.producer(name) for name in node.inputs]
        op = "Conv" if conv else "MatMul"
        if bounds is not None and not apart:
            origin = merge_origins([*producers, node, *chain])
            self._append(op, node, [x, *parts], y, {**attributes, **bounds}, origin)
            return True
        y, real = node.outputs[0], node.outputs[0]
        own = [term for term in terms if apart and term is not added]
        if own:
            real = self._fresh(f"{y}.products")
            self._define(real, graph.type(y))
        origin = merge_origins([*producers, node])
        accumulators = self._fresh(f"{y}.accumulators")
        spread = Quantization(
            scales, (0,) * len(scales), None if len(scales) == 1 else (1 if conv else rank - 1)
        )
        self._define(accumulators, TensorType("int32", graph.type(y).shape, spread))
        self._append(op, node, [x, *parts], accumulators, attributes, origin)
        self._append("DequantizeLinear", node, [accumulators], real, {}, node.origin)
        for term in own:
            values = real_bias(graph, uses, node, term, channels=channels)
            term_name = self._constant(f"{y}.bias", values)
            self._append("Add", node, [real, term_name], y, {}, node.origin)
        self.nodes = [n for n in self.nodes if n not in chain] + chain
        return True

    def _multiply(
        self, node: Node, x: str, y: str, bounds: dict[str, Attribute] | None, chain: list[Node]
    ) -> bool:
        """Append a MatMul of two activations."""
        w = quantized_source(self._uses, node.inputs[1])
        if w is None or node.op != "MatMul" or bounds is None:
            raise _not_quantized(self._graph, node)
        self._check_activation(node, x)
        self._check_activation(node, w)
        producers = [self._uses.producer(name) for name in node.inputs]
        origin = merge_origins([*producers, node, *chain])
        self._append("MatMul", node, [x, w, ""], y, bounds, origin)
        return True

    def _check_activation(self, node: Node, name: str) -> TensorType:
        kind = self._values[name].type
        if not _is_stored(kind):
            raise ModelError(
                f"node {node.origin[0]!r}: {node.op} reads {name!r}, {kind}; int8 or uint8 with"
                " one scale is supported"
            )
        return kind

    def _append(
        self,
        op: str,
        named: Node,
        inputs: list[str],
        output: str,
        attributes: dict[str, Attribute],
        origin: tuple[str, ...],
    ) -> None:
        base = named.origin[0] if named.origin else named.name
        name, count = base, 1
        while name in self._names:
            name, count = f"{base}.{op}.{count}", count + 1
        self._names.add(name)
        self.nodes.append(Node(op, name, tuple(inputs), (output,), attributes, origin=origin))

    def _constant(self, name: str, array: Array, quantization: Quantization | None = None) -> str:
        name = self._fresh(name)
        self._constants[name] = array
        self._define(name, TensorType(str(array.dtype), array.shape, quantization))
        return name

    def _define(self, name: str, kind: TensorType) -> None:
        self._values[name] = Value(name, kind)

    def _fresh(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._values:
            candidate, count = f"{name}.{count}", count + 1
        return candidate
