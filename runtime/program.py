"""`Program`: what the compiler makes and every engine runs; the `.twp` file.

A program is for one config and fixed shapes.  It is a list of steps over named tensors: host
calls work on NumPy arrays, `Pack` and `Unpack` move a tensor between the host and its packed
place in a segment, `Invoke` runs a stretch of task instructions on the machine.  Nothing in
it depends on addresses, so it moves and serves many requests without patching.
"""

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.isa import Segment
from tilewright.runtime.files import write_whole
from tilewright.runtime.packing import Packing
from tilewright.runtime.tensor import TensorType

FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a packed tensor lies.

    `offset` follows the compact plan, in which workspace is reused; `distinct_offset` the plan
    in which every tensor has a place of its own (for inspection of all tensors).  Both are
    multiples of 4 KiB, so that bursts, and so cycles, are the same in both.
    """

    segment: Segment
    offset: int
    distinct_offset: int
    packing: Packing


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor of the program; `placement` is None for one that lives on the host only."""

    name: str
    type: TensorType
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One fused operator: where it runs and why, its work and its bound.

    `nodes` are the names of the ONNX nodes it came from; `bound_cycles` is Σ over them of the
    contract's per-operator bound, `bound` what binds the largest: compute, read or write.
    """

    name: str
    op: str
    target: str
    reason: str
    nodes: tuple[str, ...]
    macs: int
    bound_cycles: int
    bound: str


@dataclass(frozen=True, slots=True)
class Pack:
    """Host: put a tensor's array into its packed place."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Unpack:
    """Host: get a tensor's array from its packed place."""

    tensor: str


@dataclass(frozen=True, slots=True)
class HostCall:
    """Host: run the kernel `op` of `runtime.host` on named tensors ("" for an absent one)."""

    layer: int
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run task instructions [first, first + count) on the machine; the last one is FINISH."""

    name: str
    first: int
    count: int


Step = Pack | Unpack | HostCall | Invoke


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled model.

    `code` is uint8[n, 32]; `constants` the CONSTANTS segment, `host_constants` arrays that host
    calls read.  For task instruction i, `layer_of[i]` is the index of the layer it works for
    (−1: none), `tensor_of[i]` of the tensor in `tensors` that it loads or stores (−1: none),
    which is also how its workspace offset is relocated to the distinct plan.
    """

    name: str
    config: Config
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    steps: tuple[Step, ...]
    code: NDArray[np.uint8]
    layer_of: NDArray[np.int32]
    tensor_of: NDArray[np.int32]
    constants: NDArray[np.uint8]
    host_constants: Mapping[str, NDArray[np.generic]]
    segment_bytes: Mapping[Segment, int]
    distinct_workspace_bytes: int
    floor_cycles: int
    model: bytes = b""
    """The source model, so that a saved program can still be checked against it."""

    def tensor(self, name: str) -> Tensor:
        """Return a tensor by name."""
        return next(t for t in self.tensors if t.name == name)

    def save(self, path: Path | str) -> None:
        """Write the `.twp` file (a zip; the same program gives the same bytes).

        Raises:
            ModelError: the file cannot be written.
        """
        header = {
            "format": FORMAT,
            "isa_version": isa.VERSION,
            "config_hash": f"{self.config.config_hash:016x}",
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "tensors": [_tensor_to_json(t) for t in self.tensors],
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "steps": [
                {"kind": type(step).__name__, **dataclasses.asdict(step)} for step in self.steps
            ],
            "segment_bytes": {segment.name: size for segment, size in self.segment_bytes.items()},
            "distinct_workspace_bytes": self.distinct_workspace_bytes,
            "floor_cycles": self.floor_cycles,
            "host_constants": list(self.host_constants),
        }
        arrays: dict[str, NDArray[np.generic]] = {
            "code": self.code,
            "layer_of": self.layer_of,
            "tensor_of": self.tensor_of,
            "constants": self.constants,
        }
        arrays |= {f"host/{i}": array for i, array in enumerate(self.host_constants.values())}
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            _write(archive, "program.json", json.dumps(header, indent=1).encode())
            for name, array in arrays.items():
                raw = io.BytesIO()
                np.save(raw, array, allow_pickle=False)
                _write(archive, f"{name}.npy", raw.getvalue())
            if self.model:
                _write(archive, "model.onnx", self.model)
        write_whole(Path(path), data.getvalue())


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    table = dataclasses.asdict(tensor)
    if tensor.placement:
        table["placement"]["segment"] = tensor.placement.segment.name
    return table
