"""The report: names of the contract, and sums that hold exactly."""

import json

from tilewright.report import Report, build_report, layer_cycles
from tilewright.runtime.executor import Execution
from tilewright.runtime.program import Program

CONTRACT = {
    *("schema", "model", "config", "config_hash", "engine", "target", "memory", "versions"),
    *("command", "cycles", "cycles_total", "invocations", "clock_mhz", "clock_source"),
    *("milliseconds", "macs_total", "macs_accelerator", "peak_macs_per_cycle", "utilization"),
    *("dram_bytes_read", "dram_bytes_written", "instructions", "wall_seconds", "cpu_seconds"),
    *("cycles_per_cpu_second", "host", "bound_cycles", "floor_cycles", "engines", "layers"),
    *("check",),
}


def report(program: Program, *executions: Execution) -> Report:
    return build_report(
        program,
        executions,
        engine="rtl",
        target="accelerator,cpu",
        memory={"latency": 20},
        wall_seconds=2.0,
        cpu_seconds=0.5,
    )


def test_json_has_every_name_of_the_contract(two_layers: Program, timed: Execution) -> None:
    table = json.loads(report(two_layers, timed).to_json())
    assert set(table) >= CONTRACT
    assert table["schema"] == 1
    assert table["config"]["block_in"] == 4
    assert table["invocations"] == [{"name": "main", "cycles": 100}]
    assert set(table["host"][0]) == {
        *("name", "op", "reason", "bytes_in", "bytes_out", "microseconds"),
    }
    assert set(table["layers"][0]) == {
        *("name", "op", "target", "reason", "cycles", "macs"),
        *("utilization", "bound_cycles", "bound"),
    }


def test_cycles_are_the_first_inference_s_and_total_all_samples(
    two_layers: Program, timed: Execution
) -> None:
    result = report(two_layers, timed, timed, timed)
    assert (result.cycles, result.cycles_total, result.samples) == (100, 300, 3)
    assert result.cycles_per_cpu_second == 600
    assert result.milliseconds == 100 / 100 / 1000
    assert result.utilization == 32 / (100 * 16)
    assert (result.bound_cycles, result.floor_cycles) == (6, 5)


def test_layer_cycles_end_at_retirements_and_sum_to_the_cycles(
    two_layers: Program, timed: Execution
) -> None:
    assert layer_cycles(two_layers, timed) == [40, 60, 0]
    result = report(two_layers, timed)
    assert sum(row.cycles or 0 for row in result.layers) == result.cycles


def test_a_layer_without_work_uses_nothing(two_layers: Program, timed: Execution) -> None:
    used = {row.name: row.utilization for row in report(two_layers, timed).layers}
    assert (used["first"], used["dequantize"]) == (16 / (40 * 16), 0.0)


def test_host_packing_is_a_layer_before_and_after(two_layers: Program, timed: Execution) -> None:
    rows = [(row.name, row.op, row.target) for row in report(two_layers, timed).layers]
    assert rows == [
        ("x", "Pack", "host"),
        ("first", "MatMul", "accelerator"),
        ("second", "MatMul", "accelerator"),
        ("dequantize", "DequantizeLinear", "cpu"),
        ("y", "Unpack", "host"),
    ]


def test_an_engine_without_time_reports_null(two_layers: Program, untimed: Execution) -> None:
    result = report(two_layers, untimed)
    assert (result.cycles, result.engines, result.utilization) == (None, None, None)
    assert {row.cycles for row in result.layers} == {None}
    assert (result.instructions, result.dram_bytes_written) == (11, 8)
