"""What a windowed layer has to do, in tiles: the problem that tilings are searched for."""

from dataclasses import dataclass

from tilewright.hw.config import Config


@dataclass(frozen=True, slots=True)
class Window:
    """Spatial geometry, (height, width) each; pads are (top, left, bottom, right)."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    def rows(self, height: int, taps: int) -> int:
        """Return the input rows under `height` output rows and `taps` kernel rows."""
        return (height - 1) * self.strides[0] + (taps - 1) * self.dilations[0] + 1

    def columns(self, width: int) -> int:
        """Return the input columns under `width` output columns."""
        return (width - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilations[1] + 1


@dataclass(frozen=True, slots=True)
class Work:
    """A layer of windows over packed tensors.

    Channels come in blocks of U = max(block_in, block_out) lanes.  Each of `groups` reads
    `in_blocks` and writes `out_blocks` of them; a block is `in_subs` input tiles, of which
    `used_subs` meet weights, and `out_subs` accumulator tiles.  `parts` weight tiles meet
    each input tile.  `accumulates` tells sums of products from maxima.
    """

    images: int
    groups: int
    in_blocks: int
    out_blocks: int
    in_subs: int
    used_subs: int
    out_subs: int
    parts: int
    in_size: tuple[int, int]
    out_size: tuple[int, int]
    window: Window
    accumulates: bool = True
    shared_weights: bool = False
    """Every block and tap meets the same weight tiles."""
    regions: int = 0
    """Output regions with a parameter row each; 0 means a row for each tile of channels."""
    corrected: bool = False
    """One accumulator tile for each tile of channels is added to the sums."""


def num_blocks(channels: int, config: Config) -> int:
    """Return the channel blocks of a packed tensor."""
    return -(-channels // config.channel_lanes)


def num_images(batch: int, config: Config) -> int:
    """Return the image tiles of a packed tensor."""
    return -(-batch // config.batch)
