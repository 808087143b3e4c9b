"""`tilewright simulate`."""

import dataclasses
import sys
from pathlib import Path

import click
import numpy as np

from tilewright.api import check_target, report_of
from tilewright.check import check
from tilewright.commands.sources import (
    check_samples,
    config_option,
    open_source,
    samples_of,
    shape_option,
    target_option,
)
from tilewright.commands.terminal import CHECK_FAILED, SUCCESS, Terminal, command
from tilewright.feeds import Feeds
from tilewright.hw.errors import SimulationError
from tilewright.mismatch import mismatch_lines
from tilewright.outputs import check_folder, check_results, whole_file, write_folder, write_npz
from tilewright.runtime.executor import Execution
from tilewright.runtime.files import write_whole
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import ENGINES, check_engine, open_engine, simulate
from tilewright.tables import print_report
from tilewright.trace import trace_json

OUTPUTS, ALL_LAYERS = "outputs", "layers"


class _SimulateCommand(click.Command):
    """A command whose bare `--check` never takes the word after it as its level."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments with `--check` written out."""
        return super().parse_args(
            ctx, [f"--check={OUTPUTS}" if a == "--check" else a for a in args]
        )


@click.command("simulate", cls=_SimulateCommand, short_help="Compile a model and run it.")
@click.argument("model", type=Path)
@config_option
@click.option(
    "--engine", default="rtl", show_default=True, metavar="E", help=f"{' or '.join(ENGINES)}."
)
@click.option(
    "--memory",
    default="",
    metavar="M",
    help="KEY=VALUE,… of latency, write_latency, beats, outstanding, refresh=PERIOD:LENGTH and"
    " jitter=MAX:SEED.  [default: latency=20,write_latency=20,beats=1,outstanding=8]",
)
@click.option("--input", "input_path", type=Path, metavar="IN.npz", help="Inputs by name.")
@click.option(
    "--samples",
    type=int,
    default=1,
    show_default=True,
    metavar="K",
    help="Inferences to run; --input then has a leading axis of K.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="S",
    default=0,
    show_default=True,
    help="Of the random input.",
)
@shape_option
@click.option("--output", type=Path, metavar="OUT.npz", help="Write the outputs by name.")
@target_option
@click.option("--trace", type=Path, metavar="T.json", help="Chrome/Perfetto trace of the first.")
@click.option("--vcd", type=Path, metavar="W.vcd", help="Waveforms of the simulation.")
@click.option("--plot", type=Path, metavar="DIR", help="Bars, roofline and timeline as PNG.")
@click.option(
    "--check",
    "check_level",
    metavar="[=layers]",
    help="Compare outputs, or every tensor, with exact arithmetic and onnxruntime.",
)
@command
def simulate_command(
    terminal: Terminal,
    model: Path,
    config: str | None,
    engine: str,
    memory: str,
    input_path: Path | None,
    samples: int,
    seed: int,
    shapes: tuple[str, ...],
    output: Path | None,
    target: str,
    trace: Path | None,
    vcd: Path | None,
    plot: Path | None,
    check_level: str | None,
) -> int:
    """Compile MODEL (an .onnx model or a .twp program) for a config and run it.

    \b
    Example:
      tilewright simulate lenet5.onnx --config tiny,block_out=8 --samples 10 --check
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    check_engine(engine)
    check_target(target)
    check_samples(samples)
    refuse_level(check_level)
    memory_model = MemoryModel.parse(memory)
    if engine != "rtl" and (trace or plot):
        raise SimulationError(
            f"--{'trace' if trace else 'plot'}: engine {engine!r} has no time; use --engine rtl"
        )
    check_results(
        {"--output": output, "--trace": trace, "--vcd": vcd}, json_path=terminal.json_path
    )
    check_folder(plot)
    source = open_source(model, config)
    feeds, sizes = samples_of(
        source, input_path=input_path, samples=samples, seed=seed, shapes=shapes
    )
    program = source.compiled(config=config, target=target, shapes=sizes).program
    with whole_file(vcd) as drawn:
        building = terminal.building(program.config)
        device = open_engine(
            engine, program.config, memory=memory_model, vcd=drawn, building=building
        )
        with terminal.progress("simulate", samples) as advance:
            served = simulate(
                program, feeds, device, all_tensors=check_level == ALL_LAYERS, progress=advance
            )
    report = report_of(program, served, engine, memory_model, command=" ".join(sys.argv[1:]))
    result = None
    if check_level is not None:
        layers = check_level == ALL_LAYERS
        result = check(
            source.reference(sizes),
            feeds,
            [each.tensors if layers else each.outputs for each in served.executions],
            layers=layers,
        )
        report = report.replace(check=dataclasses.asdict(result))
    if output:
        write_npz(output, stacked_outputs(served.executions))
    if trace:
        write_whole(trace, trace_json(program, served.executions[0]).encode())
    if plot:
        from tilewright.plots import plot_files  # noqa: PLC0415  (loads matplotlib)

        write_folder(plot, plot_files(program, served.executions[0], report))
    terminal.write_json(report.to_dict())
    print_report(terminal.console, report)
    if result is None:
        return SUCCESS
    for line in mismatch_lines(program, served.executions, result):
        terminal.print(line)
    return SUCCESS if result.passed else CHECK_FAILED


def refuse_level(level: str | None) -> None:
    """Check what `--check` was given.

    Raises:
        SimulationError: neither nothing nor `layers`.
    """
    if level not in (None, OUTPUTS, ALL_LAYERS):
        raise SimulationError(f"--check={level}: no such level; write --check or --check=layers")


def stacked_outputs(executions: tuple[Execution, ...]) -> Feeds:
    """Return outputs by name; several samples stack along a new first axis."""
    if len(executions) == 1:
        return dict(executions[0].outputs)
    names = executions[0].outputs
    return {name: np.stack([each.outputs[name] for each in executions]) for name in names}
