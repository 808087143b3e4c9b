"""Weights as tiles, in the order that a tiling loads them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.schedule.tiling import Tiling
from tilewright.hw.config import Config

INT8_MIN, INT8_MAX = -128, 127

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grouping:
    """How channels of a grouped convolution fall into blocks.

    `bundle` groups fill whole blocks on both sides, so each bundle is a small convolution with
    zero-filled diagonal weights; `count` bundles of `in_blocks` and `out_blocks`.
    """

    bundle: int
    count: int
    in_blocks: int
    out_blocks: int


def grouping_of(groups: int, depth: int, outputs: int, config: Config) -> Grouping:
    """Return the finest bundles for groups of `depth` input and `outputs` output channels."""
    lanes = config.channel_lanes
    bundle = math.lcm(lanes // math.gcd(depth, lanes), lanes // math.gcd(outputs, lanes))
    in_blocks, out_blocks = bundle * depth // lanes, bundle * outputs // lanes
    count = -(-groups // bundle)
    exact = count * in_blocks == -(-groups * depth // lanes) and count * out_blocks == -(
        -groups * outputs // lanes
    )
    if exact and count > 1:
        return Grouping(bundle, count, in_blocks, out_blocks)
    return Grouping(groups, 1, -(-groups * depth // lanes), -(-groups * outputs // lanes))


def split_parts(weights: Int64) -> Int64:
    """Return int64[parts, *shape] that sums to the weights, each part within int8.

    Less a zero point, 8-bit weights reach ±255, which takes two or three parts.
    """
    parts, rest = [np.clip(weights, INT8_MIN, INT8_MAX)], weights
    while (rest := rest - parts[-1]).any():
        parts.append(np.clip(rest, INT8_MIN, INT8_MAX))
    return np.stack(parts)


def used_subs(depth: int, config: Config) -> int:
    """Return the input tiles of a block that hold channels, when there is one block."""
    lanes, block = config.channel_lanes, config.block_in
    return lanes // block if depth > lanes else -(-depth // block)


def weight_tiles(
    parts: Int64, groups: int, grouping: Grouping, tiling: Tiling, config: Config
) -> NDArray[np.uint8]:
    """Return the bytes of parts[P, O, I / groups, KH, KW] as tiles for a tiling.

    Order: i_o, k_o, bundle, o, out sub-tile, i, in sub-tile, part, kh, kw, block_out, block_in.
    """
    count, outputs, depth, height, width = parts.shape
    per_group, lanes = outputs // groups, config.channel_lanes
    g = grouping
    shape = (g.count, count, g.out_blocks * lanes, g.in_blocks * lanes, height, width)
    dense = np.zeros(shape, np.int8)
    for group in range(groups):
        bundle, member = divmod(group, g.bundle)
        rows = slice(member * per_group, (member + 1) * per_group)
        columns = slice(member * depth, (member + 1) * depth)
        dense[bundle, :, rows, columns] = parts[:, group * per_group : (group + 1) * per_group]
    block_in, block_out = config.block_in, config.block_out
    subs = used_subs(groups * depth if g.count == 1 else lanes, config)
    tiles = dense.reshape(
        g.count, count, g.out_blocks, lanes // block_out, block_out,
        g.in_blocks, lanes // block_in, block_in, height, width,
    )[:, :, :, :, :, :, :subs]  # fmt: skip
    sizes, trips = tiling.sizes, tiling.trips
    short = trips["i"] * sizes["i"] - g.in_blocks
    tiles = np.pad(tiles, [(0, 0)] * 5 + [(0, short)] + [(0, 0)] * 4)
    tiles = tiles.reshape(
        *tiles.shape[:5], trips["i"], sizes["i"], *tiles.shape[6:8],
        trips["k"], sizes["k"], width,
    )  # fmt: skip
    # axes: 0 bundle 1 part 2 o 3 out-sub 4 lane 5 i_o 6 i 7 in-sub 8 lane 9 k_o 10 kh 11 kw
    ordered = tiles.transpose(5, 9, 0, 2, 3, 6, 7, 1, 10, 11, 4, 8)
    return np.ascontiguousarray(ordered).view(np.uint8).reshape(-1)


def identity_tiles(config: Config) -> NDArray[np.uint8]:
    """Return the tiles [out sub-tile][in sub-tile] that copy a block of channels."""
    lanes, block_in, block_out = config.channel_lanes, config.block_in, config.block_out
    eye = np.eye(lanes, dtype=np.int8)
    tiles = eye.reshape(lanes // block_out, block_out, lanes // block_in, block_in)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3)).view(np.uint8).reshape(-1)
