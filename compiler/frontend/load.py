"""`load_onnx`: an ONNX file to a graph, as the file says it, before any pass."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tilewright.compiler.frontend.builder import GraphBuilder
from tilewright.compiler.frontend.onnx_file import read_model
from tilewright.compiler.frontend.onnx_node import DTYPES, OnnxNode, unpack
from tilewright.compiler.frontend.qlinear import MICROSOFT_RULES, QLINEAR_RULES
from tilewright.compiler.frontend.rules import RULES, Rule, keep
from tilewright.compiler.ir.graph import Graph, verify
from tilewright.compiler.ir.operators import OPERATORS, Fusion
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array, Dim, TensorType

_MAIN, _MICROSOFT = "", "com.microsoft"


def load_onnx(path: Path | str) -> Graph:
    """Return the graph of an ONNX file; `graph.model` holds the file, `graph.origins` its nodes.

    Raises:
        ModelError: the file cannot be read, weights are missing, an operator is not supported.
    """
    path = Path(path)
    model, data = read_model(path)
    try:
        return _import(model, data, path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _import(model: onnx.ModelProto, data: bytes, stem: str) -> Graph:
    proto = model.graph
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    b = GraphBuilder(stem)
    b.reserve([name for node in proto.node for name in node.output if name])
    for tensor in proto.initializer:
        b.constant(tensor.name, _array(tensor))
    inputs = [v.name for v in proto.input if v.name not in b.constants]
    for name in inputs:
        if inputs.count(name) > 1:
            raise ModelError(f"graph {stem}: input {name!r} is declared twice; keep one")
    for value in proto.input:
        if value.name in inputs:
            b.define(value.name, _type(value))
    for node in proto.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        name = b.origin(node.name, node.op_type)
        _import_node(b, unpack(node, name=name, opset=opsets.get(domain, 1)))
    graph = b.graph(inputs, [v.name for v in proto.output], model=data)
    verify(graph)
    _refuse_stored_arithmetic(graph)
    return graph


def _refuse_stored_arithmetic(graph: Graph) -> None:
    """ONNX's arithmetic on stored integers ignores their scales; graphs here never do."""
    for node in graph.nodes:
        kinds = [graph.type(name) for name in node.inputs if name]
        if OPERATORS[node.op].fusion is not Fusion.ELEMENTWISE or node.op == "Concat":
            continue
        scaled = [k for k in kinds if k.dtype in {"int8", "uint8"} and k.quantization]
        if scaled:
            raise ModelError(
                f"node {node.origin[0]!r}: {node.op} works on the stored integers of {scaled[0]},"
                " not on real values; put it between DequantizeLinear and QuantizeLinear"
            )


def _import_node(b: GraphBuilder, node: OnnxNode) -> None:
    rule = _rule(node)
    for name in node.inputs:
        if name and name not in b.values:
            raise ModelError(
                f"{node}: its input {name!r} is no initializer, graph input or output of an"
                " earlier node; the file lacks weights"
            )
    try:
        rule(b, node)
    except ModelError as error:
        text = str(error)
        raise ModelError(text if f"{node.name!r}" in text else f"node {text}") from None
    except IndexError as error:
        raise ModelError(
            f"{node}: {len(node.inputs)} inputs and {len(node.outputs)} outputs are too few"
        ) from error


def _rule(node: OnnxNode) -> Rule:
    if node.domain == _MAIN:
        rule = RULES.get(node.op) or QLINEAR_RULES.get(node.op)
        if rule is None and node.op in OPERATORS:
            rule = keep
    elif node.domain == _MICROSOFT:
        rule = MICROSOFT_RULES.get(node.op)
        if node.op in {"QuantizeLinear", "DequantizeLinear", "Gelu"}:
            rule = RULES.get(node.op, keep)
    else:
        rule = None
    if rule is None:
        raise ModelError(
            f"node {node.name!r}: operator {node.op} of domain {node.domain or 'ai.onnx'} is not"
            " supported; replace it in the exported model"
        )
    return rule


def _array(tensor: onnx.TensorProto) -> Array:
    try:
        array: Array = np.asarray(numpy_helper.to_array(tensor))
    except (KeyError, ValueError, TypeError) as error:
        raise ModelError(
            f"weight {tensor.name!r} has no data, or not that of its element type"
            f" {tensor.data_type} and shape {list(tensor.dims)}; export the model again"
        ) from error
    return array


def _type(value: onnx.ValueInfoProto) -> TensorType:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or kind.elem_type not in DTYPES:
        raise ModelError(f"input {value.name!r} is not a tensor of a supported element type")
    if not kind.HasField("shape"):
        raise ModelError(f"input {value.name!r} has no shape; export the model with one")
    shape: list[Dim] = []
    for i, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value"):
            shape.append(int(dim.dim_value))
        else:
            shape.append(dim.dim_param or f"{value.name}.{i}")
    return TensorType(DTYPES[kind.elem_type], tuple(shape))
