"""`tile tune`: list tuning results on disk, or exchange them between machines.

  tile tune list             the results of each kernel, machine and tuning key, with the fastest
  tile tune export FILE      write all results to a file
  tile tune import FILE      add the results of such a file; a result that is there stays

Tuners store results with `cache_results=True`, or where TILE_CACHE_AUTOTUNING=1 is set, in a folder
under TILE_CACHE_DIR; `--folder` names another one, as `cache_results="FOLDER"` does. Results are of
one device and driver: on another machine they are there, but not used.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tile.errors import ArgumentError
from tile.runtime.autotuning.tuning_store import (
    default_folder,
    export_results,
    import_results,
    results_in,
)
from tile.tools.command import table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument("action", choices=("export", "import", "list"))
    parser.add_argument("file", nargs="?", type=Path, help="of `export` and `import`")
    parser.add_argument("--folder", type=Path, help="the folder of results")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    folder = options.folder or default_folder()
    if options.action == "list":
        print(_list(folder))
        return 0
    if options.file is None:
        raise ArgumentError(f"tile tune {options.action} takes a file")
    try:
        if options.action == "export":
            print(f"{options.file}: {export_results(folder, options.file)} results")
        else:
            new, there = import_results(options.file, folder)
            print(f"{folder}: {new} new results, {there} were there")
    except (OSError, ValueError) as error:
        raise ArgumentError(str(error)) from error
    return 0


def _list(folder: Path) -> str:
    """Return a table with a row for each kernel, machine and key."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for _, content in results_in(folder):
        group = tuple(str(content.get(name, "")) for name in ("kernel", "machine", "key"))
        groups.setdefault(group, []).append(content)
    rows = []
    for group, results in sorted(groups.items()):
        ran = [result for result in results if result["times"]]
        best = min(ran, key=lambda result: result["times"][0], default=None)
        fastest = ["", "none runs"] if best is None else [f"{best['times'][0]:.4g}", best["config"]]
        rows.append([*group, str(len(results)), *fastest])
    return table(["kernel", "machine", "key", "results", "ms", "fastest"], rows, left=(0, 1, 2, 5))
