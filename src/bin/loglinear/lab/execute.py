"""Runs notebooks from top to bottom and checks what comes out.

A cell fails the run if the kernel reports an error, if it writes to standard error (which is where a
panic and a failed `?` end up: evcxr calls such a cell a success), or if what it shows is broken. Unless
outputs are stored in the notebook itself, their form (kinds, columns of tables) must be the stored one.
A cell with the tag `raises-exception` is expected to fail.
"""

import argparse
import base64
import html.parser
import pathlib
import queue
import re
import sys
import time
import xml.etree.ElementTree

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbclient.util import ensure_async

EXPECTED = "raises-exception"
MARK = "loglinear: all before this line has come"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Failed(Exception):
    """What is wrong with a cell."""


class Table(html.parser.HTMLParser):
    """Columns and number of body rows of the tables of a page."""

    def __init__(self):
        super().__init__()
        self.columns, self.rows, self.part, self.name = [], 0, None, False

    def handle_starttag(self, tag, attributes):
        if tag in ("thead", "tbody"):
            self.part = tag
        elif tag == "tr" and self.part == "tbody":
            self.rows += 1
        elif tag == "span" and ("class", "name") in attributes:
            self.name = True

    def handle_data(self, data):
        if self.name:
            self.columns.append(data)
            self.name = False


def text(value):
    return "".join(value)


def form(output):
    """What must stay the same when numbers change."""
    if output.output_type == "stream":
        return (output.name,)
    if output.output_type == "error":
        return ("error",)
    kinds = tuple(sorted(output.data))
    if "text/html" in output.data:
        table = Table()
        table.feed(text(output.data["text/html"]))
        return kinds + (tuple(table.columns),)
    return kinds


def check(output):
    """Raises if an output is broken."""
    if output.output_type == "stream" and output.name == "stderr":
        raise Failed("wrote to standard error:\n" + output.text.strip())
    if output.output_type == "error":
        raise Failed(output.evalue)
    if output.output_type != "execute_result" and output.output_type != "display_data":
        return
    if text(output.data.get("text/plain", "")).startswith("shape: (") and "text/html" not in output.data:
        # The kernel falls back to text if the last expression uses up a variable of its own cell.
        raise Failed("a frame shown as text: name it first (let frame = …; frame)")
    if "image/svg+xml" in output.data:
        root = xml.etree.ElementTree.fromstring(text(output.data["image/svg+xml"]))
        if len(list(root.iter())) < 10:
            raise Failed("a figure with fewer than ten elements")
    if "image/png" in output.data:
        if not base64.b64decode(text(output.data["image/png"])).startswith(b"\x89PNG"):
            raise Failed("an image that is no PNG")
    if "text/html" in output.data:
        table = Table()
        table.feed(text(output.data["text/html"]))
        if table.columns and not table.rows:
            raise Failed("a table without rows")


def tidy(notebook):
    """Removes what differs from run to run without meaning anything."""
    for number, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        merged = []
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = COLOURS.sub("", text(output.text))
                if merged and merged[-1].output_type == "stream" and merged[-1].name == output.name:
                    merged[-1].text += output.text
                    continue
            elif output.output_type == "error":
                output.traceback = [COLOURS.sub("", line) for line in output.traceback]
                output.evalue = COLOURS.sub("", output.evalue)
            if "execution_count" in output:
                output.execution_count = number
            merged.append(output)
        blank = [o for o in merged if o.output_type == "stream" and not o.text.strip()]
        cell.outputs = [output for output in merged if output not in blank]


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


class Runner(NotebookClient):
    """Stops at the first cell that is wrong, and tells where it is."""

    def __init__(self, notebook, **options):
        super().__init__(notebook, **options)
        self.begun = time.time()
        self.total = len(code_cells(notebook))
        self.done = 0
        self.on_cell_start = self.start
        self.on_cell_executed = self.end

    def start(self, cell, cell_index):
        self.begun = time.time()

    async def end(self, cell, cell_index, execute_reply):
        if cell.cell_type != "code":
            return
        self.done += 1
        seconds = time.time() - self.begun
        print(f"  cell {self.done}/{self.total}: {seconds:.1f} s", flush=True)
        expected = EXPECTED in cell.metadata.get("tags", [])
        if expected or self.done == self.total:
            await self.settle(cell)
        else:
            await self.collect(cell, seconds=0.05)
        try:
            for output in cell.outputs:
                check(output)
        except Failed as failure:
            if expected:
                return
            raise Failed(self.where(cell, failure)) from None
        if expected:
            raise Failed(self.where(cell, "succeeded, but has the tag " + EXPECTED))

    async def settle(self, cell):
        """Waits until all that the cell wrote to standard error has come.

        The kernel passes standard error on by a thread of its own, also after it has called the cell done.
        A line that is written later and has come says that all before it have.
        """
        await ensure_async(self.kc.execute(f'eprintln!("{MARK}");', store_history=False))
        await self.collect(cell, seconds=60, until=MARK)
        await ensure_async(self.kc.get_shell_msg(timeout=60))

    async def collect(self, cell, seconds, until=None):
        """Adds to the cell what still comes on standard error, up to a line if one is given."""
        deadline = time.time() + seconds
        while (left := deadline - time.time()) > 0:
            try:
                message = await ensure_async(self.kc.get_iopub_msg(timeout=left))
            except queue.Empty:
                return
            content = message["content"]
            if message["msg_type"] != "stream" or content["name"] != "stderr":
                continue
            late = content["text"]
            if until and until in late:
                return
            cell.outputs.append(nbformat.v4.new_output("stream", name="stderr", text=late))

    def where(self, cell, failure):
        source = "\n".join("    " + line for line in cell.source.splitlines())
        return f"cell {self.done}/{self.total}:\n{source}\n{failure}"


def execute(path, arguments):
    """Runs one notebook and returns what is wrong with it, or None."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # Whatever a file that is no notebook makes the reader raise.
        return f"not a notebook: {str(error).splitlines()[0]}"
    wanted = notebook.metadata.get("kernelspec", {}).get("name", arguments.kernel)
    if wanted != arguments.kernel:
        return f"is for the kernel `{wanted}`, not for `{arguments.kernel}`"
    stored = [[form(output) for output in cell.outputs] for cell in code_cells(notebook)]
    begun = time.time()
    print(f"{path}", flush=True)
    client = Runner(
        notebook,
        kernel_name=arguments.kernel,
        timeout=arguments.timeout,
        startup_timeout=300,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    problem = None
    try:
        client.execute()
    except CellExecutionError as failure:
        problem = COLOURS.sub("", str(failure))
    except Failed as failure:
        problem = str(failure)
    tidy(notebook)
    notebook.metadata["kernelspec"] = {
        "display_name": "Rust (loglinear)",
        "language": "rust",
        "name": arguments.kernel,
    }
    notebook.metadata["language_info"] = {"file_extension": ".rs", "mimetype": "text/rust", "name": "rust"}
    found = [[form(output) for output in cell.outputs] for cell in code_cells(notebook)]
    # A notebook that was never executed has nothing to compare with.
    if problem is None and not arguments.in_place and any(stored):
        for number, (before, after) in enumerate(zip(stored, found), start=1):
            if before != after:
                problem = f"cell {number}: outputs of another form than the stored ones: expected {before}, found {after}"
                break
    if not (arguments.in_place and problem):
        target = path if arguments.in_place else arguments.out / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
    print(f"  {'FAILED' if problem else 'passed'} in {time.time() - begun:.1f} s", flush=True)
    return problem


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kernel")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("executed"))
    parser.add_argument("--timeout", type=int, default=1800, help="seconds a cell may take")
    parser.add_argument("notebooks", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    problems = []
    for path in arguments.notebooks:
        problem = execute(path, arguments)
        if problem:
            problems.append(f"{path}: {problem}")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
