"""Traces: one track an engine, instructions in order and never overlapping."""

import json
from itertools import pairwise

import pytest

from tilewright.hw.errors import SimulationError
from tilewright.runtime.executor import Execution
from tilewright.runtime.program import Program
from tilewright.trace import trace_json


def test_events_of_a_track_do_not_overlap_and_keep_their_times(
    two_layers: Program, timed: Execution
) -> None:
    events = json.loads(trace_json(two_layers, timed))["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks == {0: "load", 1: "compute", 2: "store", 3: "layers"}
    for track in tracks:
        spans = [
            (e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == track
        ]
        assert spans
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))
    store = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    assert [e["name"] for e in store] == ["first", "second"]
    assert store[0]["args"]["instruction"].startswith("store  <p >n segment=workspace")
    assert (store[0]["args"]["taken"], store[0]["args"]["retired"]) == (32, 40)
    assert store[0]["ts"] == 0.32


def test_an_engine_without_time_has_no_trace(two_layers: Program, untimed: Execution) -> None:
    with pytest.raises(
        SimulationError, match=r"^trace: this engine has no time; use --engine rtl$"
    ):
        trace_json(two_layers, untimed)
