"""Sizes that a config implies and that its timing depends on: RTL and timing model share them."""

from tilewright.hw.config import Config

LOAD_QUEUE_DEPTH = 16
"""LOADs that the load engine has taken and not yet begun to write."""

START_CYCLES = 9
"""Cycles from the one that sees the start bit to the first in which fetch may ask for code."""

_FETCH_BURST_BYTES = 256
_LOAD_FIFO_BEATS = 256


def fetch_burst_beats(config: Config) -> int:
    """Beats of a burst of code: a power of two, at most 256 bytes."""
    most = min(config.axi_burst_beats, _FETCH_BURST_BYTES // config.axi_bytes)
    return 1 << most.bit_length() - 1


def load_fifo_beats(config: Config) -> int:
    """Beats that the load engine buffers, and so may have asked for: a power of two.

    Two of the longest bursts fit, where as many may be outstanding.
    """
    wanted = config.axi_outstanding * config.axi_burst_beats
    most = max(_LOAD_FIFO_BEATS, 2 * _power(config.axi_burst_beats))
    return min(most, max(2, _power(wanted)))


def _power(least: int) -> int:
    """Return the least power of two that is no less."""
    return 1 << (least - 1).bit_length()
