"""When weights are loaded: once, piece by piece, ahead of the activations that wait."""

import numpy as np

from tilewright.compiler.backends.accelerator.prefetch import hoist_constants
from tilewright.compiler.backends.accelerator.scratchpads import ScratchpadPlan
from tilewright.compiler.backends.accelerator.task import DramAccess, Task
from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.loops import Allocate, Buffer, Extent, For, Kernel, Kind, Scope, fixed
from tilewright.compiler.pipeline import compile_graph
from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.encoding import decode
from tilewright.hw.isa import Memory, Segment
from tilewright.runtime.tensor import Quantization, TensorType


def pointwise(size: int, channels: int, outputs: int) -> Graph:
    """A 1x1 convolution with a stride of 2."""
    unit = Quantization((0.5,), (0,))
    weights = np.ones((outputs, channels, 1, 1), np.int8)
    shapes = {"x": (1, channels, size, size), "y": (1, outputs, size // 2, size // 2)}
    types = {name: TensorType("int8", shape, unit) for name, shape in shapes.items()}
    types["w"] = TensorType("int8", weights.shape, Quantization((0.01,), (0,)))
    attributes = {"strides": (2, 2), "dilations": (1, 1), "pads": (0,) * 4, "group": 1}
    node = Node("Conv", "conv", ("x", "w", ""), ("y",), attributes)
    values = {name: Value(name, kind) for name, kind in types.items()}
    return Graph("pointwise", ("x",), ("y",), (node,), values, {"w": weights})


def test_resident_weights_are_loaded_once_and_mostly_while_computing() -> None:
    config = Config.preset("pynq-z1")
    code = decode(compile_graph(pointwise(28, 128, 256), config).code)
    first_gemm = next(i for i, task in enumerate(code) if isinstance(task, isa.Gemm))
    sizes = {
        i: task.x * task.y * task.z
        for i, task in enumerate(code)
        if isinstance(task, isa.Load) and task.memory == Memory.WEIGHT
    }
    assert sum(sizes.values()) == 128 * 256 // (config.block_in * config.block_out)
    assert sum(size for i, size in sizes.items() if i < first_gemm) <= sum(sizes.values()) // 2


def load(segment: Segment, memory: Memory) -> Task:
    access = DramAccess(segment, 0, 16, 1, 0, 1, 0, write=False)
    return Task(isa.Load(memory=memory, segment=segment), (access,), 0)


def test_what_the_first_gemm_needs_of_weights_is_loaded_before_activations() -> None:
    activations = load(Segment.WORKSPACE, Memory.INPUT)
    weights = load(Segment.CONSTANTS, Memory.WEIGHT)
    uops = load(Segment.CONSTANTS, Memory.UOP)
    gemm = Task(isa.Gemm(), (), 0)
    tasks = [uops, activations, weights, gemm, activations, weights]
    assert hoist_constants(tasks) == [uops, weights, activations, gemm, activations, weights]


def test_four_virtual_threads_take_the_halves_of_the_accumulators_in_turn() -> None:
    config = Config.preset("pynq-z1")
    tile = Buffer("acc", "int32", fixed(4), Scope.ACCUMULATOR)
    loop = For("t", Extent(8), Kind.VIRTUAL_THREAD, (Allocate(tile),), 4)
    places = ScratchpadPlan(config).place(Kernel("copies", (loop,), {}, {}))["acc"]
    half = config.depths()["accumulator"] // 2
    assert places == (0, half, 4, half + 4)
