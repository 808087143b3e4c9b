"""`canonicalize`: an imported graph to the one form that back-ends and references read."""

from tilewright.compiler.ir.graph import Graph, verify
from tilewright.compiler.passes.check_ratios import check_ratios
from tilewright.compiler.passes.eliminate_dead import eliminate_dead
from tilewright.compiler.passes.flatten_to_conv import flatten_to_conv
from tilewright.compiler.passes.fold_constants import fold_constants
from tilewright.compiler.passes.fold_pads import fold_pads
from tilewright.compiler.passes.fold_scales import fold_scales
from tilewright.compiler.passes.fuse_clamps import fuse_clamps
from tilewright.compiler.passes.fuse_quantized import fuse_quantized
from tilewright.compiler.passes.hoist_quantize import hoist_quantize
from tilewright.compiler.passes.merge_reshapes import merge_reshapes
from tilewright.compiler.passes.remove_identities import remove_identities
from tilewright.compiler.passes.sink_dequantize import sink_dequantize
from tilewright.compiler.passes.widen_windows import widen_windows

PASSES = (
    remove_identities,
    sink_dequantize,
    fold_scales,  # a scaled real value is one more DequantizeLinear
    fold_pads,  # real Pad before a real Conv hides the chain from fusion
    sink_dequantize,  # behind what follows the folded scales
    hoist_quantize,  # what is left of movement between an operator and its QuantizeLinear
    fuse_quantized,
    fold_constants,  # DequantizeLinears that no operator took its weights from
    eliminate_dead,  # leftover DequantizeLinears would make tensors look shared
    remove_identities,
    fuse_clamps,
    fold_pads,  # Pads on stored integers
    widen_windows,
    merge_reshapes,  # after the Squeezes that widening leaves
    flatten_to_conv,
    eliminate_dead,
    check_ratios,
)


def canonicalize(graph: Graph) -> Graph:
    """Return the canonical graph.

    Raises:
        ModelError: the model is not quantized, or a weight or bias cannot be used.
    """
    verify(graph)
    for graph_pass in PASSES:
        graph = graph_pass(graph)
        verify(graph)
    return graph
