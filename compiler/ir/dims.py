"""Arithmetic on dimensions that may be symbols: products, reshapes, windows, broadcasting."""

from collections.abc import Mapping, Sequence

from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Dim


def product(dims: Sequence[Dim]) -> Dim:
    """Return the number of elements; a name such as "4*N" when symbols are left."""
    size, symbols = 1, []
    for dim in dims:
        if isinstance(dim, int):
            size *= dim
        else:
            symbols.append(dim)
    if not symbols or size == 0:
        return size
    return "*".join([*([str(size)] if size != 1 else []), *sorted(symbols)])


def quotient(dims: Sequence[Dim], divisors: Sequence[Dim]) -> Dim:
    """Return product(dims) / product(divisors).

    Raises:
        ModelError: the sizes do not divide, or a symbol is left in the divisor.
    """
    size, divisor = 1, 1
    symbols = [dim for dim in dims if isinstance(dim, str)]
    for dim in dims:
        size *= dim if isinstance(dim, int) else 1
    for dim in divisors:
        if isinstance(dim, int):
            divisor *= dim
        elif dim in symbols:
            symbols.remove(dim)
        else:
            raise ModelError(f"shape: {list(dims)} cannot be divided by {list(divisors)}")
    if divisor == 0 or size % divisor:
        raise ModelError(f"shape: {list(dims)} cannot be divided by {list(divisors)}")
    return product([size // divisor, *symbols])


def reshape(shape: Sequence[Dim], target: Sequence[int], *, allow_zero: bool) -> tuple[Dim, ...]:
    """Return the shape of ONNX Reshape: 0 copies a dimension unless `allow_zero`, −1 is the rest.

    Raises:
        ModelError: the numbers of elements differ.
    """
    dims: list[Dim] = []
    for i, size in enumerate(target):
        if size == 0 and not allow_zero:
            if i >= len(shape):
                raise ModelError(
                    f"shape: Reshape to {list(target)} copies axis {i} of {list(shape)}"
                )
            dims.append(shape[i])
        else:
            dims.append(size)
    if -1 in dims:
        at = dims.index(-1)
        dims[at] = quotient(shape, [*dims[:at], *dims[at + 1 :]])
    old, new = product(shape), product(dims)
    if isinstance(old, int) and isinstance(new, int) and old != new:
        raise ModelError(f"shape: {list(shape)} has {old} elements, {list(target)} does not")
    return tuple(dims)


def broadcast(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """Return the shape that NumPy broadcasting gives.

    Raises:
        ModelError: two sizes that differ, neither of them 1.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for i, dim in enumerate(shape, rank - len(shape)):
            if dim == 1 or dim == result[i]:
                continue
            if result[i] != 1 and isinstance(dim, int) and isinstance(result[i], int):
                raise ModelError(f"shape: {[list(s) for s in shapes]} do not broadcast")
            result[i] = dim if result[i] == 1 or isinstance(dim, int) else result[i]
    return tuple(result)


def window(size: int, *, kernel: int, stride: int, dilation: int, pads: int) -> int:
    """Return how many window positions fit along an axis, `pads` being both ends together."""
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


def bind(dim: Dim, sizes: Mapping[str, int]) -> Dim:
    """Return the dimension with its symbol replaced, if `sizes` has it."""
    return sizes.get(dim, dim) if isinstance(dim, str) else dim
