"""Building small ONNX models, and running a graph with the host kernels."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.compiler.ir.graph import Graph
from tilewright.runtime.host import KERNELS
from tilewright.runtime.tensor import Array

Shape = Sequence[int | str]
ModelFile = Callable[..., Path]
_ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


@pytest.fixture
def model_file(tmp_path: Path) -> ModelFile:
    """Write a model; inputs and outputs are {name: (dtype, shape)}, weights {name: array}."""

    def write(
        nodes: Sequence[onnx.NodeProto],
        inputs: Mapping[str, tuple[str, Shape]],
        outputs: Mapping[str, tuple[str, Shape]],
        weights: Mapping[str, Array],
        *,
        opset: int = 13,
        name: str = "model.onnx",
    ) -> Path:
        def values(table: Mapping[str, tuple[str, Shape]]) -> list[onnx.ValueInfoProto]:
            return [
                helper.make_tensor_value_info(key, _ELEMENTS[dtype], shape)
                for key, (dtype, shape) in table.items()
            ]

        tensors = [numpy_helper.from_array(np.asarray(a), key) for key, a in weights.items()]
        graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), tensors)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        path = tmp_path / name
        path.write_bytes(
            helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        )
        return path

    return write


@pytest.fixture
def run_on_host() -> Callable[[Graph, Mapping[str, Array]], dict[str, Array]]:
    """Return every tensor of a graph, computed by the host kernels."""

    def run(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
        tensors: dict[str, Array] = {**graph.constants, **feeds}
        for node in graph.nodes:
            arrays = [tensors[name] if name else None for name in node.inputs]
            kinds = [graph.type(name) if name else None for name in node.inputs]
            out = [graph.type(name) for name in node.outputs]
            results = KERNELS[node.op](arrays, node.attributes, kinds, out)
            tensors.update(zip(node.outputs, results, strict=True))
        return tensors

    return run
