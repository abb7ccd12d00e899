"""Control flow means what it means in Python: random programs, run by Python and from their IR."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.frontend.programs import loose_programs, programs
from tests.frontend.scalar_machine import ScalarMachine
from tile.errors import CompilationError
from tile.frontend.compile import compile_function
from tile.frontend.source import DeviceFunction
from tile.ir.core import Module
from tile.ir.printer import print_module
from tile.ir.types import I32, Pointer
from tile.ir.verifier import verify

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
    """What the program stores when Python runs it."""
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


def machine_log(module: Module, args: tuple[int, ...]) -> Log:
    return ScalarMachine(module).run(0, *args)


def check(text: str, run: Callable[[Module, tuple[int, ...]], Log]) -> None:
    for flag in (True, False):
        module = compiled(text, flag)
        for args in INPUTS:
            assert run(module, args) == python_log(text, args, flag), (
                f"differs for {args}, FLAG={flag}:\n{text}\n{print_module(module)}"
            )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_do_as_python_does(text: str) -> None:
    check(text, machine_log)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(loose_programs())
def test_what_is_accepted_never_reads_a_name_without_a_value(text: str) -> None:
    try:
        compiled(text, True), compiled(text, False)
    except CompilationError as error:
        assert "may have no value" in error.message or "has no value" in error.message
        assert error.loc is not None
        return
    check(text, machine_log)
