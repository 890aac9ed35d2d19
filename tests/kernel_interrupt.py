"""Interrupts a training that a notebook started, then runs its cell again.

Usage: loglinear lab --python tests/kernel_interrupt.py FOLDER
"""

import json
import pathlib
import sys
import time

from jupyter_client.manager import start_new_kernel

FOLDER = pathlib.Path(sys.argv[1]) / "runs"
RUN = FOLDER / "fixed-seed0"


def cells(steps):
    return [
        "use loglinear::notebook::prelude::*;",
        f"""
let trained = Experiment::new({json.dumps(str(FOLDER))})
    .task(TaskConfig::Mqar(MqarConfig {{ seq_len: 32, pairs: 4, ..Default::default() }}))
    .lambda([LambdaKind::Fixed])
    .configure(|config| {{
        config.train.steps = {steps};
        config.train.eval_every = 50;
        config.train.target = 0.0;
    }})
    .run()?;
println!("done");
""",
    ]


def wait_for(condition, what, seconds=120):
    begun = time.time()
    while not condition():
        if time.time() - begun > seconds:
            sys.exit(f"waited {seconds} s in vain: {what}")
        time.sleep(0.1)


def evaluations():
    path = RUN / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def main():
    manager, client = start_new_kernel(kernel_name="loglinear", startup_timeout=300)
    try:
        check(manager, client, steps=600)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def check(manager, client, steps):
    first, training = cells(steps)
    client.execute_interactive(first, timeout=300)
    lines = []
    client.execute(training)
    wait_for(lambda: evaluations() >= 2, "two evaluations")
    manager.interrupt_kernel()
    # The program stops after its step and leaves a checkpoint.
    wait_for((RUN / "checkpoint.safetensors").exists, "a checkpoint")
    time.sleep(2)
    before = evaluations()
    time.sleep(2)
    assert evaluations() == before < steps // 50, "the program went on after the interrupt"
    assert not (RUN / "result.json").exists(), "the run ended before the interrupt"

    # Variables are gone, the kernel is not: the same cells go on.
    client.wait_for_ready(timeout=120)
    for cell in (first, training):
        reply = client.execute_interactive(
            cell, timeout=300, output_hook=lambda m: lines.append(m["content"].get("text", ""))
        )
        assert reply["content"]["status"] == "ok", reply["content"]
    told = "".join(lines)
    assert "done" in told and "goes on" in told, told
    # Whole lines, with a rate and the time left.
    progress = [line for line in told.splitlines() if ": step " in line]
    assert progress and all("steps/s" in line and line.endswith("s left") for line in progress), told
    rows = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(50, steps + 1, 50)), rows
    assert json.loads((RUN / "result.json").read_text())["steps"] == steps


if __name__ == "__main__":
    main()
