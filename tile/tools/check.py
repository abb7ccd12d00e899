r"""`tile check`: run a program under all checks.

Run a program on the interpreter under all checks, and repeat its launches in other ways, each on
the same contents of the arrays. Report faults with their lines, and results that depend on what
they should not depend on.

  tile check program.py                       a program; arguments after its name are passed to it
  tile check -m pytest tests/test_mine.py     a module, as with python -m
  tile check --grid "cdiv(n, BLOCK)" --vary BLOCK=64,128 \
      kernel.py:add x=fp32[1000] y=fp32[1000] out=fp32[1000]:0 n=1000 BLOCK=256
                                              one kernel, on arrays of random numbers

The other ways are
  orders           programs of the grid start in reverse and in --seeds random orders, with more or
                   fewer of them at once
  configurations   every configuration of kernels with @tile.autotune
  constants        --vary BLOCK=64,128: in launches with such a constexpr, if the grid is a function
                   of it: kernel[lambda meta: (tile.cdiv(n, meta["BLOCK"]),)]

Options come before the program, as those of Python do.

Integers must be equal, and floats too, up to the rounding of sums in another order. The report
names the environment variables that reproduce a different result. The exit status is 1 if there is
a fault, a difference or a launch that was not checked (one from another thread), and otherwise that
of the program.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.backends.base import requested_checks
from tile.diagnostics import write_report
from tile.diagnostics.differential import INCOMPLETE_NOTE, CheckOptions, DifferentialRun, Findings
from tile.errors import ArgumentValueError
from tile.tools.arguments import HELP, add_define, parse_arguments, parse_constant, parse_grid
from tile.tools.command import TRITON_C, PrintedErrors, load_kernel, run_program, table

if TYPE_CHECKING:
    from tile.diagnostics.pages.fault_page import check_page
else:  # pages need a library that nothing else needs
    check_page = lazy_import("tile.diagnostics.pages.fault_page", "check_page")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add("--checks", default="all", help="as for TILE_SANITIZE: all, none, or some, by commas")
    add("--seeds", type=int, default=2, help="how many random orders (2; 0: no other orders)")
    add("--vary", action="append", default=[], metavar="NAME=VALUES", help="values of a constexpr")
    add(
        "--launches",
        type=int,
        default=3,
        metavar="N",
        help="launches of a kernel with the same constants that are repeated in other ways (3)",
    )
    add(
        "--tolerance",
        type=float,
        metavar="R",
        help="difference that counts as rounding, relative to an array's largest number (by dtype)",
    )
    add("--grid", default="1", help="of one kernel: as in 8, 4,2 or cdiv(n, BLOCK)")
    add("--html", metavar="FILE", help="write the report as a page with drawings of the faults")
    add("--json", metavar="FILE", help="write the report as JSON")
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("program", help="program.py, or kernel.py:function, or kernel.tc:function")
    parser.epilog = HELP
    add_define(parser)
    add(
        "arguments",
        nargs=argparse.REMAINDER,
        help="arguments of the program, or of the kernel as NAME=VALUE",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    rehearsal = DifferentialRun(_plan(options))
    launch = _program(options)
    ended = False
    errors = PrintedErrors(interrupts=False)
    try:
        with errors:
            with rehearsal.watching():
                errors.status = launch()
            ended = True
    finally:  # report the launches of a program that fails, too
        findings = rehearsal.findings
        if ended or findings.report.coverage.counts:
            findings.ended = ended
            findings.unknown = _unknown(rehearsal.plan, findings)
            _report(findings, options)
    if findings.unknown:
        constants = ", ".join(findings.constexprs) or "no tl.constexpr"
        raise ArgumentValueError(
            f"--vary {findings.unknown[0]}: no kernel that was launched has such a tl.constexpr; "
            f"they have {constants}"
        )
    return findings.status or errors.status


def _plan(options: argparse.Namespace) -> CheckOptions:
    for name in ("seeds", "launches"):
        if getattr(options, name) < 0:
            raise ArgumentValueError(f"--{name} is a number from 0, not {getattr(options, name)}")
    return CheckOptions(
        checks=requested_checks(options.checks, "--checks"),
        seeds=options.seeds,
        varied=_all_varied(options.vary),
        launches=options.launches,
        tolerance=options.tolerance,
    )


def _all_varied(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values by name; the values of repeated options are concatenated."""
    varied: dict[str, list[Any]] = {}
    for name, values in map(_varied, texts):
        varied.setdefault(name, []).extend(values)
    return varied


def _unknown(plan: CheckOptions, findings: Findings) -> list[str]:
    """Return the constants of `--vary` that no launched kernel has.

    Programs that launched no kernel that could be varied are exempt.
    """
    if not findings.tallies or not plan.launches:
        return []
    return [name for name in plan.varied if name not in findings.constexprs]


def _varied(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise ArgumentValueError(f"--vary is as in BLOCK=64,128, not {text!r}")
    return name, [parse_constant(name, value) for value in values.split(",")]


def _program(options: argparse.Namespace) -> Callable[[], int]:
    """Return the function that runs the program, or launches the single kernel."""
    file, _, name = options.program.rpartition(":")
    if options.module or not (file.endswith((".py", TRITON_C)) and name.isidentifier()):
        return lambda: run_program(options.program, options.arguments, module=options.module)
    kernel = load_kernel(options.program, parse_arguments(options.define))
    arguments, grid = parse_arguments(options.arguments), parse_grid(options.grid)

    def launch() -> int:
        kernel[grid](**arguments)
        return 0

    return launch


def _report(findings: Findings, options: argparse.Namespace) -> None:
    """Print the findings, and write them to the requested files."""
    print("\n\n".join(_paragraphs(findings)))
    if options.html:
        page = check_page(json.loads(json.dumps(findings.as_dict())))
        write_report(options.html, page, "the page")
    if options.json:
        write_report(options.json, json.dumps(findings.as_dict(), indent=2) + "\n", "the report")


def _paragraphs(findings: Findings) -> Iterator[str]:
    coverage = findings.report.coverage
    if not findings.tallies and not coverage.counts:
        yield findings.verdict
        return
    if findings.tallies:
        yield _launches(findings)
    yield "\n".join(coverage.lines())
    if findings.report:
        yield from findings.report.paragraphs()
    for way, group in findings.elsewhere:
        yield f"only with {way}\n{group}"
    for dependence in sorted(findings.dependences, key=lambda dependence: dependence.harmless):
        yield str(dependence)
    for (kernel, constants), tally in findings.tallies.items():
        if tally.not_varied:
            names = ", ".join(sorted(tally.not_varied))
            yield (
                f"note: `{kernel}` with {constants} was not varied in {names}: its grid does not "
                f"depend on {'it' if len(tally.not_varied) == 1 else 'them'}"
            )
    if not findings.ended:
        yield f"note: {INCOMPLETE_NOTE}"
    if findings.ended or findings:
        yield findings.verdict


def _launches(findings: Findings) -> str:
    rows = [
        [kernel, constants, str(tally.launches), str(len(tally.ways))]
        for (kernel, constants), tally in findings.tallies.items()
    ]
    return table(("kernel", "constants", "launches", "other ways"), rows, left=(0, 1))
