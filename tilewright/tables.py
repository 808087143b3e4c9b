"""The tables that commands print."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tilewright.hw.registers import CAUSES
from tilewright.listing import memory_plan
from tilewright.report import Report
from tilewright.runtime.program import Program


def print_rows(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
) -> None:
    """Print a table whose first `left` columns are text and the others numbers."""
    table = _table(title, *columns, left=left)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def print_layers(console: Console, program: Program) -> None:
    """Print where every layer runs, and why."""
    print_rows(
        console,
        f"{program.name} for config {program.config.name}",
        ("layer", "op", "target", "reason", "MACs", "bound cycles"),
        [
            (row.name, row.op, row.target, row.reason, f"{row.macs:,}", f"{row.bound_cycles:,}")
            for row in program.layers
        ],
        left=4,
    )


def print_plan(console: Console, program: Program) -> None:
    """Print where every packed tensor lies."""
    print_rows(
        console,
        "memory plan",
        ("tensor", "type", "segment", "offset", "bytes"),
        [
            (row["tensor"], row["type"], row["segment"], f"{row['offset']:,}", f"{row['bytes']:,}")
            for row in memory_plan(program)
        ],
        left=3,
    )


def print_report(console: Console, report: Report) -> None:
    """Print layers, engines, host work and the summary of a run."""
    console.print(_layer_table(report))
    if report.engines:
        console.print(_engine_table(report))
    for line in summary_lines(report):
        console.print(line, highlight=False)


def _table(title: str, *columns: str, left: int = 1) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return table


def _layer_table(report: Report) -> Table:
    table = _table(
        f"{report.model} on {report.config['name']}, engine {report.engine}",
        *("layer", "op", "target", "cycles", "bound", "MACs", "of peak"),
        left=3,
    )
    for row in report.layers:
        table.add_row(
            escape(row.name),
            row.op,
            row.target,
            "–" if row.cycles is None else f"{row.cycles:,}",
            f"{row.bound_cycles:,} {row.bound}" if row.bound_cycles else "",
            f"{row.macs:,}" if row.macs else "",
            f"{row.utilization:.1%}" if row.utilization else "",
        )
    return table


def _engine_table(report: Report) -> Table:
    table = _table("engines, % of cycles", "engine", *(cause.replace("_", " ") for cause in CAUSES))
    for engine, causes in (report.engines or {}).items():
        total = sum(causes.values()) or 1
        table.add_row(engine, *(f"{causes[cause] / total:.1%}" for cause in CAUSES))
    return table


def summary_lines(report: Report) -> list[str]:
    """Return the run in a few lines of text."""
    lines = []
    if report.cycles is not None and report.milliseconds is not None:
        lines.append(
            f"{report.cycles:,} cycles an inference, {report.milliseconds:.3f} ms at"
            f" {report.clock_mhz} MHz ({report.clock_source});"
            f" bound {report.bound_cycles:,}, fused {report.floor_cycles:,}"
        )
    if report.utilization is not None:
        lines.append(f"{report.utilization:.1%} of {report.peak_macs_per_cycle} MACs a cycle")
    lines.append(
        f"DRAM: {report.dram_bytes_read:,} bytes read, {report.dram_bytes_written:,} written"
    )
    microseconds = sum(step.microseconds for step in report.host)
    lines.append(f"host: {len(report.host)} steps, {microseconds / 1000:.2f} ms")
    speed = report.cycles_per_cpu_second
    rate = f", {speed:,.0f} cycles a CPU-second" if speed else ""
    lines.append(f"{report.samples} inferences simulated in {report.wall_seconds:.2f} s{rate}")
    return lines + [_check_line(name, row) for name, row in report.check.items()]


def _check_line(reference: str, row: Mapping[str, Any]) -> str:
    """Return a reference's outcome; `row` is its entry of the report's `check`."""
    if row.get("unavailable"):
        return f"check {reference}: skipped, {row['unavailable']}"
    line = f"check {reference}: {row['compared']:,} values compared, {row['mismatched']:,} differ"
    if row.get("ties"):
        line += f" ({row['ties']:,} at a rounding tie)"
    if row.get("assumed"):
        line += f", {len(row['assumed'])} tensors of real-valued operators taken from the run"
    if row.get("top1_agreement") is not None:
        line += f", top-1 agreement {row['top1_agreement']:.1%}"
    if row.get("failed"):
        line += f"; FAILED: {', '.join(row['failed'])}"
    return line
