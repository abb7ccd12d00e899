"""The page and the plots of the results that `benchmarks/paper.py` has measured.

Results are one JSON file for each kind of machine, "gpu" and "cpu":

    {"machine": text, "figures": {name: {"title", "unit", "xlabel", "date", "points": [
        {"label", "rates": {peer: rate}, "warm": ratio, "reference": peer, "note"}]}}}

"warm" is the first peer's rate over the reference's with a warm L2 cache; points with one kind of
rates lack it. A figure may have a "note", of how it was measured otherwise.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KINDS = ("gpu", "cpu")
HEAD = """# Results: the figures of the paper that introduced Triton, and further plots

`python benchmarks/paper.py` writes this page. It stores each point when it is measured, and goes on
with the rest after a time limit. Figures 1, 8, 10 and 11 are those of "Triton: An Intermediate
Language and Compiler for Tiled Neural Network Computations" (MAPL 2019); the plots after them have
the operations that introductions to Triton measure. The data is random, and each result is compared
with that of the reference peer: "error" is the norm of the difference over that of the result. On a
GPU, the L2 cache is cold: operations per second are those of calls in a CUDA graph, in turn on
copies of the operands that do not fit in it together. "Warm" is the ratio of calls on one copy, or
empty if one copy does not fit either. On a CPU, kernels run by OpenCL, and sizes are about a tenth:
its rates show that the command works.
"""


def peers_of(points: list[dict[str, Any]]) -> list[str]:
    """Return the peers of a figure's points, in order of appearance."""
    return list(dict.fromkeys(peer for point in points for peer in point["rates"]))


def ratio(rates: Mapping[str, float], reference: str) -> str:
    """Return the first peer's rate over the reference's, or nothing if there is none."""
    if "tile" not in rates or reference not in rates:
        return ""
    return f"{rates['tile'] / rates[reference]:.2f}"


def table(figure: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a figure's table."""
    points = figure["points"]
    peers = peers_of(points)
    warm = any("warm" in point for point in points)
    header = [figure["xlabel"], *peers, "ratio", *(["warm"] if warm else []), "error"]
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    for point in points:
        rates = point["rates"]
        cells = [f"{rates[peer]:.4g}" if peer in rates else "" for peer in peers]
        cells.append(ratio(rates, point["reference"]))
        if warm:
            cells.append(f"{point['warm']:.2f}" if "warm" in point else "")
        yield f"| {' | '.join([point['label'], *cells, point['note']])} |"


def sections(kind: str, results: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield the lines of a machine's part of the page."""
    yield f"\n## {results['machine']}"
    for name, figure in results["figures"].items():
        references = list(dict.fromkeys(point["reference"] for point in figure["points"]))
        yield f"\n### {figure['title']}\n"
        said = [
            f"{figure['unit']}, {figure['date']}",
            f"The ratio is that to {', '.join(references)}",
        ]
        yield ". ".join(filter(None, [*said, figure.get("note")])) + ".\n"
        yield from table(figure)
        if (folder / f"{kind}-{name}.png").exists():
            yield f"\n![{figure['title']}]({folder.name}/{kind}-{name}.png)"


def draw(kind: str, name: str, figure: Mapping[str, Any], folder: Path) -> None:
    """Save the plot of a figure as PNG."""
    import matplotlib.pyplot as plt

    axes = plt.figure(figsize=(6, 3.6), dpi=80).gca()
    points = figure["points"]
    for peer in peers_of(points):
        measured = [point for point in points if peer in point["rates"]]
        axes.plot(
            [point["label"] for point in measured],
            [point["rates"][peer] for point in measured],
            marker="o",
            markersize=3,
            label=peer,
        )
    axes.set(title=figure["title"], xlabel=figure["xlabel"], ylabel=figure["unit"], ylim=(0, None))
    axes.title.set_fontsize(9)
    axes.tick_params(axis="x", labelrotation=30, labelsize=7)
    axes.legend(fontsize=7)
    axes.figure.tight_layout()
    axes.figure.savefig(folder / f"{kind}-{name}.png", metadata={"Software": None})
    plt.close()


def write(out: Path) -> Path:
    """Write `paper.md` and the plots of all results in `out`/paper; return the page's path."""
    folder = out / "paper"
    lines = [HEAD.rstrip()]
    for kind in KINDS:
        path = folder / f"{kind}.json"
        if not path.exists():
            continue
        results = json.loads(path.read_text("utf-8"))
        if importlib.util.find_spec("matplotlib") is not None:
            for name, figure in results["figures"].items():
                draw(kind, name, figure, folder)
        lines += sections(kind, results, folder)
    page = out / "paper.md"
    page.write_text("\n".join(lines) + "\n", "utf-8")
    return page
