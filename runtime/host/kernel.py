"""The form of a host kernel."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import Attributes
from tilewright.runtime.tensor import Array, TensorType

Numbers = NDArray[Any]
"""Inside kernels: arrays of any element type that arithmetic is done on."""

Inputs = Sequence[Array | None]
InputTypes = Sequence[TensorType | None]
OutputTypes = Sequence[TensorType]
Kernel = Callable[[Inputs, Attributes, InputTypes, OutputTypes], list[Array]]
"""`kernel(inputs, attributes, input_types, output_types)`; None stands for an absent input.

Types carry quantizations; their shapes are not looked at, so a kernel works on any batch.
"""

ArrayKernel = Callable[[Inputs, Attributes], list[Array]]
"""A kernel that needs no types."""


def required(inputs: Inputs, index: int) -> Numbers:
    """Return an input that must be there.

    Raises:
        ModelError: it is absent.
    """
    array = inputs[index] if index < len(inputs) else None
    if array is None:
        raise ModelError(f"input {index} is missing")
    return array


def typed(types: InputTypes, index: int) -> TensorType:
    """Return the type of an input that must be there.

    Raises:
        ModelError: it is absent.
    """
    kind = types[index] if index < len(types) else None
    if kind is None:
        raise ModelError(f"input {index} is missing")
    return kind
