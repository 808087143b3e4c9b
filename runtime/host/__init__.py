"""Host kernels: every operator's meaning on NumPy arrays, found by operator name."""

from tilewright.runtime.host.elementwise import ELEMENTWISE_KERNELS
from tilewright.runtime.host.integer import INTEGER_KERNELS
from tilewright.runtime.host.kernel import Kernel
from tilewright.runtime.host.layout import LAYOUT_KERNELS
from tilewright.runtime.host.quantize import QUANTIZE_KERNELS, on_real_values
from tilewright.runtime.host.quantized import QUANTIZED_KERNELS
from tilewright.runtime.host.real import REAL_KERNELS

KERNELS: dict[str, Kernel] = {
    **QUANTIZE_KERNELS,
    **LAYOUT_KERNELS,
    **{name: on_real_values(kernel) for name, kernel in ELEMENTWISE_KERNELS.items()},
    **{name: on_real_values(kernel) for name, kernel in REAL_KERNELS.items()},
    **QUANTIZED_KERNELS,
    **INTEGER_KERNELS,
}
"""`KERNELS[op](inputs, attributes, input_types, output_types)` returns the outputs."""
