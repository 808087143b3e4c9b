"""The loop IR: affine arithmetic, text, verification."""

import re

import pytest

from tilewright.compiler.ir.loops import (
    ZERO,
    Affine,
    Allocate,
    Buffer,
    Copy,
    Extent,
    For,
    Kernel,
    Kind,
    Region,
    Scope,
    Statement,
    Store,
    axis,
    fixed,
    tiled,
    verify,
    whole,
)
from tilewright.hw.errors import CompileError


def copy_kernel(*statements: Statement) -> Kernel:
    return Kernel("copy", statements, {"x": "in"}, {"y": "out"})


def rows_of_ten() -> tuple[Statement, ...]:
    """Ten tiles through the accumulators, four at a time."""
    extent = tiled(10, 4, "t")
    tile = Buffer("acc", "int32", (extent,), Scope.ACCUMULATOR)
    x = Region(Buffer("x", "int8", fixed(10), Scope.DRAM), (axis("t", 4),), (extent,))
    y = Region(Buffer("y", "int8", fixed(10), Scope.DRAM), (axis("t", 4),), (extent,))
    body = (Allocate(tile), Copy(whole(tile), x, widen=True), Store(y, whole(tile), None))
    return (For("t", Extent(3), Kind.VIRTUAL_THREAD, body),)


def test_affine_terms_cancel_and_sort() -> None:
    value = axis("w", 2) + axis("h", 3) + axis("w", -2) + 5
    assert value == Affine(5, (("h", 3),))
    assert value.evaluate({"h": 4}) == 17


def test_a_tail_is_clipped_to_what_is_left() -> None:
    extent = tiled(10, 4, "t")
    assert [extent.evaluate({"t": t}) for t in range(3)] == [4, 4, 2]
    assert tiled(8, 4, "t") == Extent(4)


def test_kernel_prints_as_text() -> None:
    assert str(copy_kernel(*rows_of_ten())).splitlines() == [
        "kernel copy(x = 'in', y = 'out')",
        "  for t in 3 virtual_thread:",
        "    allocate acc: accumulator int32[min(4, -4*t + 10)]",
        "    acc[0 : +min(4, -4*t + 10)] = x[4*t : +min(4, -4*t + 10)] widen zero_point=0",
        "    y[4*t : +min(4, -4*t + 10)] = acc[0 : +min(4, -4*t + 10)] raw"
        " zero_point=0 in -128..127",
    ]


def test_verify_accepts_a_kernel() -> None:
    kernel = copy_kernel(*rows_of_ten())
    verify(kernel)
    assert kernel.inputs == {"x": "in"}


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (rows_of_ten()[0].body[1:], "loops: copy: acc: is not allocated"),
        (rows_of_ten()[0].body, "loops: copy: x: axes ['t'] are free"),
        (
            (For("t", Extent(2), Kind.SERIAL, rows_of_ten()),),
            "loops: copy: axis t is nested in itself",
        ),
    ],
)
def test_verify_names_what_is_wrong(statements: tuple[Statement, ...], message: str) -> None:
    with pytest.raises(CompileError, match=f"^{re.escape(message)}$"):
        verify(copy_kernel(*statements))


def test_a_region_has_the_rank_of_its_buffer() -> None:
    buffer = Buffer("x", "int8", fixed(2, 3), Scope.DRAM)
    with pytest.raises(CompileError, match="ranks"):
        Region(buffer, (ZERO,), fixed(2, 3))
