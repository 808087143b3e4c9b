"""`tilewright demo`."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from tilewright.api import DEFAULT_CONFIG, report_of
from tilewright.api import compile as compile_model
from tilewright.check import CheckResult, batched, check
from tilewright.commands.sources import check_samples
from tilewright.commands.terminal import CHECK_FAILED, SUCCESS, Terminal, command
from tilewright.demo import IMAGE_COUNT, LENET5, OUTPUT, accuracy, load_images
from tilewright.hw.config import Config
from tilewright.hw.errors import ModelError
from tilewright.model import load
from tilewright.outputs import check_folder, write_folder
from tilewright.plots import plot_files
from tilewright.runtime.executor import Execution
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import open_engine, simulate
from tilewright.tables import print_report

FOLDER = Path("tilewright-demo")
SAMPLES = 200


@click.command("demo", short_help="A real model on simulated hardware, every value checked.")
@click.option(
    "--config", default=DEFAULT_CONFIG, show_default=True, metavar="C", help="As of simulate."
)
@click.option(
    "--samples", type=int, default=SAMPLES, show_default=True, metavar="K", help="Images to run."
)
@click.option(
    "-o",
    "--output",
    type=Path,
    default=FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder of report.json and plots.",
)
@command
def demo_command(terminal: Terminal, config: str, samples: int, output: Path) -> int:
    """Run LeNet-5 on MNIST images: compile it, simulate the RTL, compare every value.

    Exits 1 when a value differs from exact arithmetic, or a layer from onnxruntime.

    \b
    Example:
      tilewright demo --samples 1000 --config tiny
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    check_samples(samples)
    if samples > IMAGE_COUNT:
        raise ModelError(f"--samples {samples}: the demo holds {IMAGE_COUNT} images")
    check_folder(output)
    machine = Config.parse(config)
    graph = load(LENET5)
    feeds, labels = load_images(samples)
    program = compile_model(graph, config=machine).program
    memory = MemoryModel()
    device = open_engine("rtl", machine, memory=memory, building=terminal.building(machine))
    with terminal.progress(f"simulate {samples} images", samples) as advance:
        served = simulate(program, feeds, device, all_tensors=True, progress=advance)
    result = check(
        graph.ir, batched(feeds), batched([each.tensors for each in served.executions]), layers=True
    )
    report = report_of(program, served, "rtl", memory, command=" ".join(sys.argv[1:]))
    report = report.replace(check=dataclasses.asdict(result))
    table = {**report.to_dict(), "accuracy": accuracy(_logits(served.executions), labels)}
    files = {"report.json": (json.dumps(table, indent=1) + "\n").encode()}
    files |= plot_files(program, served.executions[0], report)
    paths = write_folder(output, files)
    terminal.write_json(table)
    print_report(terminal.console, report)
    terminal.print(verdict(result, samples))
    terminal.print(f"accuracy: {table['accuracy']:.1%} of {samples} images")
    terminal.print(f"wrote {', '.join(str(path) for path in paths)}")
    return SUCCESS if result.passed else CHECK_FAILED


def _logits(executions: Sequence[Execution]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.concatenate([np.asarray(each.outputs[OUTPUT], np.float32) for each in executions])


def verdict(result: CheckResult, samples: int) -> str:
    """Return the outcome of the comparison in one line."""
    exact = result.exact
    text = (
        f"{exact.compared:,} values of {samples} images: {exact.mismatched} differ from exact"
        " arithmetic"
    )
    if exact.first:
        text += f", first {exact.first}"
    if result.onnxruntime.unavailable:
        return f"{text}; {result.onnxruntime.unavailable}, so not compared with it"
    agreement = result.onnxruntime.top1_agreement or 0.0
    return f"{text}; onnxruntime agrees on {agreement:.1%} of the classes"
