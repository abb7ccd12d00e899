"""Control flow has the semantics of Python: random programs, run by Python and from their IR."""

from __future__ import annotations

import itertools
import linecache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tile
import tile.language as tl
from tests.frontend.programs import loose_programs, programs
from tests.frontend.scalar_machine import ScalarMachine
from tests.sampling import examples, sample
from tile.errors import CompilationError
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.module import Module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.types import I32, Pointer
from tile.ir.verifier import verify
from tile.transforms.pass_pipeline import TILE

INPUTS = ((0, 0, 0), (1, 2, 3), (5, -1, 7), (3, 3, 40), (-2, 9, 1))
Log = list[tuple[int, int]]
files = itertools.count()


def defined(text: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run source text as a file that tracebacks and `inspect` can read."""
    file = f"<program {next(files)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    return namespace


def python_log(text: str, args: tuple[int, ...], flag: bool) -> Log:
    """Return what the program stores when Python runs it."""
    log: Log = []
    language = SimpleNamespace(
        range=range,
        static_range=range,
        constexpr=tl.constexpr,
        store=lambda offset, value: log.append((offset, int(value))),
    )
    defined(text, {"tl": language})["kernel"](0, *args, flag)
    return log


def compiled(text: str, flag: bool) -> Module:
    namespace = defined(text, {"tl": tl})
    if "helper" in namespace:
        namespace["helper"] = DeviceFunction(namespace["helper"])
    kernel = DeviceFunction(namespace["kernel"])
    types = {"out": Pointer(I32), "a": I32, "b": I32, "c": I32}
    module = compile_function(kernel, types, {"FLAG": flag})
    verify(module)
    return module


def check(text: str, *, passes: bool = False) -> None:
    """Hold a program to Python for all inputs, as the frontend made it or after the passes."""
    for flag in (True, False):
        module = compiled(text, flag)
        if passes:
            run_pipeline(module, TILE)
            verify(module)
        for args in INPUTS:
            log = ScalarMachine(module, strict=not passes).run(0, *args)
            assert log == python_log(text, args, flag), (
                f"differs for {args}, FLAG={flag}:\n{text}\n{print_module(module)}"
            )


RUN = examples(20)


LOOPS = {
    "for": ("", "for {i} in range(3):"),
    "down": ("", "for {i} in range(c & 3, -1, -1):"),
    "while": ("{i} = -1", "while {i} < 2:\n    {i} += 1"),
    "forever": ("{i} = -1", "while True:\n    {i} += 1\n    if {i} > 2:\n        break"),
    "static": ("", "for {i} in tl.static_range(3):"),
}
NESTED = """
def kernel(out, a, b, c, FLAG: tl.constexpr):
    total = 0
    {before_i}
    {outer}
        tl.store(out + i, i)
        if i == a:
            {exit_outer}
        {before_j}
        {inner}
            total += 1
            if {test}:
                total += 10
                if FLAG:
                    {exit_inner}
                else:
                    tl.store(out + 20, j)
            elif j > b:
                {exit_inner}
            tl.store(out + 30 + j, total)
        total += 100
    tl.store(out + 99, total)
"""


EXITS = ("break", "continue", "return")


@pytest.mark.parametrize(
    ("inner_loop", "outer_loop", "inner_exit", "outer_exit"),
    sample(itertools.product(LOOPS, repeat=2), [*itertools.product(EXITS, repeat=2)], each=3),
)
def test_every_exit_from_every_nesting(
    inner_loop: str, outer_loop: str, inner_exit: str, outer_exit: str
) -> None:
    inner, outer = (
        [part.format(i=name) for part in LOOPS[kind]]
        for kind, name in ((inner_loop, "j"), (outer_loop, "i"))
    )
    text = NESTED.format(
        before_i=outer[0] or "pass",
        before_j=inner[0] or "pass",
        outer=outer[1].replace("\n", "\n    "),
        inner=inner[1].replace("\n", "\n        "),
        exit_inner=inner_exit,
        exit_outer=outer_exit,
        test="i + j == c & 3",
    )
    check(text)


RETURNS_BEFORE_A_TEST = """
def kernel(out, a, b, c, FLAG: tl.constexpr):
    v = a
    n = 0
    while n < 3 and not b < v:
        n += 1
        while True:
            if n >= a:
                return
            v = v + c & 63
            if v > b:
                break
        if FLAG:
            if c > v:
                return
            else:
                v = 5
                return
    tl.store(out, v)
"""


def test_what_a_loop_s_condition_looks_at_has_a_value_after_a_return_too() -> None:
    check(RETURNS_BEFORE_A_TEST)


@RUN
@given(programs())
def test_random_programs_do_as_python_does(text: str) -> None:
    check(text)


@RUN
@given(programs())
def test_passes_keep_the_semantics_of_control_flow(text: str) -> None:
    check(text, passes=True)


MAIN = """

def main(out, inputs, FLAG: tl.constexpr):
    place = tl.program_id(0)
    a, b, c = tl.load(inputs + 3 * place), tl.load(inputs + 3 * place + 1), tl.load(inputs + 3 * place + 2)
    kernel(out + 200 * place, a, b, c, FLAG)
"""


@RUN
@given(programs())
def test_programs_that_part_ways_under_the_interpreter_do_as_python_does(text: str) -> None:
    """All inputs in one launch, so that every branch is taken by some programs and not by others."""
    namespace = defined(text + MAIN, {"tl": tl})
    for name in ("helper", "kernel", "main"):
        namespace[name] = tile.jit(namespace[name])
    for flag in (True, False):
        out = np.full((len(INPUTS), 200), -1000, np.int32)
        with tile.backend("interp"):
            namespace["main"][(len(INPUTS),)](out, np.array(INPUTS, np.int32), flag)
        expected = np.full_like(out, -1000)
        for row, args in zip(expected, INPUTS, strict=True):
            for offset, value in python_log(text, args, flag):
                row[offset] = value
        assert np.array_equal(out, expected), text


@RUN
@given(loose_programs())
def test_what_is_accepted_never_reads_a_name_without_a_value(text: str) -> None:
    try:
        compiled(text, True), compiled(text, False)
    except CompilationError as error:
        assert "may have no value" in error.message or "has no value" in error.message
        assert error.loc is not None
        return
    check(text)
