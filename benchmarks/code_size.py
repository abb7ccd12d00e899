"""Count the files and lines of code of each package of `tile/`, now and at earlier commits.

    python benchmarks/code_size.py [COMMIT...] [--features] [--markdown]

Lines that are blank, comments, docstrings or imports do not count. The last columns are of the
working tree, and the last row is of packages that the last commit lacks. With `--features`, rows
are the features that have packages and files of their own, and all else.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
# Packages whose parts are counted apart.
DIVIDED = frozenset({"backends", "frontend", "ir", "runtime", "simt"})
# Features that came after the packages were laid out: prefixes of the paths of their files.
FEATURES = {
    "kernels to call: `tile.ops`": "ops/",
    "`import triton`": """compat/ tools/triton.py _import_hooks.py language/base/compile_options.py
        language/block_pointer.py language/composed.py language/core.py language/replacements.py
        language/scaled_dot.py language/slices.py frontend/python/aggregates.py
        frontend/python/attributes.py frontend/python/comprehensions.py
        frontend/python/overloads.py ir/block_address.py ir/dtype_members.py runtime/callbacks.py
        runtime/compile_reasons.py runtime/function_description.py runtime/interface.py
        runtime/kernel_metadata.py runtime/stage_files.py runtime/arguments/pointer_objects.py
        triton_variables.py""",
    "libdevice off NVIDIA": """ir/semantics/libdevice/ language/extra/ language/extern.py
        ir/ops/extern.py backends/opencl/emit/libdevice backends/opencl/emit/library/""",
    "inline PTX off NVIDIA": """transforms/expand_inline_asm/ ir/ops/inline_asm.py
        language/inline_asm.py backends/nvptx/emit/inline_ptx.py""",
    "PyTorch's graphs": """torch/ runtime/arguments/autograd.py
        runtime/arguments/storage_view.py""",
    "JAX": "jax/ runtime/arguments/jax_arrays.py",
    "Triton-C": "frontend/triton_c/ triton_c.py",
    "tuning of spaces": "runtime/autotuning/ tools/tune.py analysis/workload.py",
    "schedules and Hopper": """simt/schedule/ simt/hopper/ simt/ops/order.py
        simt/ops/warp_specialize.py simt/tma_uses.py simt/assign/decompose_dots.py
        simt/assign/transpose_dots.py language/im2col.py
        backends/interp/simulator/warpgroup_order.py
        backends/nvptx/emit/warp_specialize.py analysis/pointer_blocks.py
        analysis/index_ analysis/polynomial.py transforms/find_blocks.py simt/ops/cluster.py
        backends/interp/simulator/clusters.py backends/interp/simulator/rules/cluster.py
        backends/nvptx/emit/cluster.py""",
    "extents of any size": "transforms/pad_extents.py",
    "linking": "ir/linker.py tools/link.py",
}
ALL_ELSE = "all else"
NO_CODE = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Size:
    """The size of a package."""

    files: int = 0
    lines: int = 0

    def add(self, other: Size) -> None:
        self.files += other.files
        self.lines += other.lines


def code_lines(text: str) -> int:
    """Return the number of lines of code of a module's text."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            left_out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - left_out)


def modules(commit: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the path below `tile/` and the text of each module at a commit, or now for ""."""
    if not commit:
        for path in sorted((ROOT / "tile").rglob("*.py")):
            below = path.relative_to(ROOT / "tile").as_posix()
            yield PurePosixPath(below), path.read_text("utf-8")
        return
    command = ["git", "archive", commit, "tile"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            file = files.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                yield PurePosixPath(member.name).relative_to("tile"), file.read().decode()


def package_of(path: PurePosixPath) -> str:
    """Return the package that a module counts to."""
    folders = path.parts[:-1]
    if not folders:
        return "files of `tile/`"
    deep = folders[0] in DIVIDED and len(folders) > 1
    return "`" + "/".join(folders[: 2 if deep else 1]) + "`"


def feature_of(path: PurePosixPath) -> str:
    """Return the feature that a module counts to, or `ALL_ELSE`."""
    for feature, prefixes in FEATURES.items():
        if path.as_posix().startswith(tuple(prefixes.split())):
            return feature
    return ALL_ELSE


def sizes(commit: str, group: Callable[[PurePosixPath], str]) -> dict[str, Size]:
    """Return the size of each group of modules at a commit."""
    groups: dict[str, Size] = defaultdict(Size)
    for path, text in modules(commit):
        groups[group(path)].add(Size(1, code_lines(text)))
    return groups


def table(commits: list[str], *, features: bool) -> list[list[str]]:
    """Return the rows of the table of packages or features, the heading first."""
    group, heading = (feature_of, "feature") if features else (package_of, "package")
    columns = [sizes(commit, group) for commit in [*commits, ""]]
    names = [*FEATURES, ALL_ELSE] if features else sorted({*chain.from_iterable(columns)})
    rows = [[heading, *(f"{c or 'now'}: {what}" for c in [*commits, ""] for what in KINDS)]]
    for name in names:
        rows.append([name, *cells([column.get(name) for column in columns])])
    new = [name for name in names if name not in columns[-2:][0]]
    rows.append(["all", *cells([total(column, names) for column in columns])])
    if commits and not features:
        rows.append(["new packages", *cells([total(column, new) for column in columns])])
    return rows


KINDS = ("files", "lines")


def total(column: dict[str, Size], names: list[str]) -> Size:
    """Return the size of some packages together."""
    result = Size()
    for name in names:
        result.add(column.get(name, Size()))
    return result


def cells(row: list[Size | None]) -> Iterator[str]:
    """Yield the cells of a row."""
    for size in row:
        yield from ("", "") if size is None else (str(size.files), f"{size.lines:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count files and lines of code by package.")
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="earlier commits, in order")
    parser.add_argument("--features", action="store_true", help="count features, not packages")
    parser.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    options = parser.parse_args()
    rows = table(options.commits, features=options.features)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for index, (name, *numbers) in enumerate(rows):
        line = [name.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])]
        print("| " + " | ".join(line) + " |" if options.markdown else "  ".join(line).rstrip())
        if options.markdown and not index:
            rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
            print("|" + "|".join(rule) + "|")


if __name__ == "__main__":
    main()
