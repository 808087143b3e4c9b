"""A wrong element is traced to its tile, instruction and cycle."""

import dataclasses

import numpy as np

from tilewright.hw.config import Config
from tilewright.mismatch import element_offset, find_origin
from tilewright.runtime.executor import Execution
from tilewright.runtime.packing import Packing
from tilewright.runtime.program import Program


def test_an_element_leads_to_the_store_that_wrote_it(two_layers: Program, timed: Execution) -> None:
    origin = find_origin(two_layers, timed, "q", (0, 2))
    assert origin is not None
    assert (origin.tensor, origin.tile, origin.index, origin.cycle) == ("q", 0, 5, 40)
    assert str(origin) == ("tile 0 of q, instruction 5 (store  <p >n segment=workspace), cycle 40")


def test_a_host_step_that_keeps_positions_is_looked_through(
    two_layers: Program, untimed: Execution
) -> None:
    origin = find_origin(two_layers, untimed, "real", (0, 1))
    assert origin is not None
    assert (origin.tensor, origin.index, origin.cycle) == ("y", 9, None)


def test_a_host_step_that_mixes_elements_has_no_origin(
    two_layers: Program, untimed: Execution
) -> None:
    *others, last = two_layers.tensors
    wide = dataclasses.replace(last, type=dataclasses.replace(last.type, shape=(4, 1)))
    program = dataclasses.replace(two_layers, tensors=(*others, wide))
    assert find_origin(program, untimed, "real", (1, 0)) is None


def test_element_offset_agrees_with_packing_for_unequal_blocks_and_batches() -> None:
    config = Config(batch=2, block_in=4, block_out=8, alu_lanes=16)
    packing = Packing.of((3, 10, 2, 3), "int32", config)
    x = np.arange(3 * 10 * 2 * 3, dtype=np.int32).reshape(3, 10, 2, 3)
    packed = packing.pack(x).view(np.int32)
    assert all(
        packed[element_offset(packing, x.shape, index)] == value
        for index, value in np.ndenumerate(x)
    )


def test_element_offset_follows_axes_that_are_split_and_reordered() -> None:
    config = Config.preset("tiny")
    packing = Packing.of((1, 6, 4, 5), "int32", config, factors=(4, 5, 2, 3), order=(3, 2, 0, 1))
    x = np.arange(120, dtype=np.int32).reshape(20, 6)
    packed = packing.pack(x).view(np.int32)
    assert all(
        packed[element_offset(packing, x.shape, index)] == value
        for index, value in np.ndenumerate(x)
    )
