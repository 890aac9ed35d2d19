"""Times the notebook kernel as a reader meets it.

    cargo run --release -- lab --python benches/kernel.py [starts]

Prints seconds from the start of the kernel to the first result, and for later cells that filter and
show a frame and that draw a figure, beside the goals. Every cell is new to the kernel: nothing is
compiled before.
"""

import os
import pathlib
import statistics
import sys
import time

from jupyter_client.manager import start_new_kernel

ROOT = pathlib.Path(os.environ["LOGLINEAR_CHECKOUT"])
DATA = ROOT / "data" / "quickstart"

FIRST = f"""
use loglinear::notebook::prelude::*;
let trained = Trained::open({str(DATA)!r})?;
let lambda = frame::recorded_lambda(&trained.folders)?;
lambda
""".replace("'", '"')


def frame_cell(number):
    level, position = number % 6, number % 32
    return f"""
let cell_{number} = lambda.clone().lazy()
    .filter(col("level").eq(lit({level}u32)).and(col("position").gt_eq(lit({position}u32))))
    .group_by([col("kind"), col("layer")])
    .agg([col("lambda").mean().alias("mean_{number}"), col("lambda").max().alias("max")])
    .sort(["kind", "layer"], Default::default())
    .collect()?;
cell_{number}
"""


def figure_cell(number):
    kinds = ["fixed", "mlp-softplus", "mlp-softmax"]
    run = f"quickstart/{kinds[number % 3]}-seed{number // 3 % 2}"
    return f"visualization::lambda_heatmap(&lambda, {run!r}, {number % 8}, Cells::Present)?".replace("'", '"')


def execute(client, code, expected):
    """Seconds of a cell, which must give a result of the expected kind and no complaint."""
    kinds, complaints = set(), []

    def hook(message):
        content, kind = message["content"], message["header"]["msg_type"]
        if kind == "error" or (kind == "stream" and content["name"] == "stderr"):
            complaints.append(content)
        elif kind in ("execute_result", "display_data"):
            kinds.update(content["data"])

    begun = time.time()
    reply = client.execute_interactive(code, output_hook=hook, timeout=300)
    seconds = time.time() - begun
    if reply["content"]["status"] != "ok" or complaints or expected not in kinds:
        sys.exit(f"cell failed:\n{code}\n{complaints or kinds or reply['content']}")
    return seconds


def main():
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    first, frames, figures = [], [], []
    for start in range(starts):
        begun = time.time()
        manager, client = start_new_kernel(kernel_name="loglinear", startup_timeout=300)
        try:
            execute(client, FIRST, "text/html")
            first.append(time.time() - begun)
            frames += [execute(client, frame_cell(start * 20 + i), "text/html") for i in range(20)]
            figures += [execute(client, figure_cell(start * 6 + i), "image/svg+xml") for i in range(6)]
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        print(f"start {start + 1}/{starts}: first result after {first[-1]:.1f} s", flush=True)
    rows = [
        ("kernel start to first result", statistics.median(first), 20, len(first)),
        ("cell that filters and shows a frame, median", statistics.median(frames), 2, len(frames)),
        ("the same, 95th percentile", statistics.quantiles(frames, n=20)[18], 4, len(frames)),
        ("cell that draws a figure, median", statistics.median(figures), 3, len(figures)),
        ("the same, slowest", max(figures), 3, len(figures)),
    ]
    print(f"\n{'':48}{'seconds':>8}{'goal':>8}{'n':>5}")
    for name, seconds, goal, count in rows:
        print(f"{name:48}{seconds:8.2f}{'≤ ' + str(goal):>8}{count:5}")


if __name__ == "__main__":
    main()
