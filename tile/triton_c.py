"""Triton-C, the C-like language of the Triton paper (MAPL 2019): `load` files, `compile` text.

    program = tile.triton_c.load("matmul.tc")
    program.matmul_nt[grid](a, b, c, M, N, K, TM=32, TN=32, TK=8)

Each kernel of a file is an attribute of the program. It is launched as a jitted Python function is;
tunables that a launch leaves out are chosen by the autotuner among their values in the file. The
language is described in docs/triton_c.md. Needs the package `lark`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile.errors import ArgumentTypeError, CompilationError
from tile.frontend.python.code_generator import compile_function
from tile.frontend.triton_c.function import TritonCFunction, python_function, remember_lines
from tile.frontend.triton_c.host import run, tunable_values
from tile.frontend.triton_c.parser import Text
from tile.frontend.triton_c.rules import RULES
from tile.frontend.triton_c.translate import translate
from tile.frontend.triton_c.unit import Function, Unit
from tile.ir.module import Module
from tile.language.base.constexpr import constexpr
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import Config
from tile.runtime.autotuning.decorator import autotune
from tile.runtime.autotuning.space import Space
from tile.runtime.interface import KernelInterface
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel
from tile.tracebacks import public_function

__all__ = ["Kernel", "Program", "compile", "load"]

MOST_LISTED = 64  # choices of tunables that are all measured; of more, a search measures few


@dataclass(frozen=True)
class _Recipe:
    """The input of a compilation: the text, its file, and the host's values."""

    text: str
    file: str
    values: Mapping[str, Any]


def _jit_kernel(recipe: _Recipe, name: str) -> _JITKernel:
    return _kernel(recipe, name).jit


def _kernel(recipe: _Recipe, name: str) -> Kernel:
    kernel: Kernel = getattr(compile(recipe.text, recipe.file, **recipe.values), name)
    return kernel


class _JITKernel(TritonCFunction, JITFunction[..., Any]):
    """A kernel of a file, with all of its parameters: tunables and constant arrays included."""

    rules = RULES

    def __init__(
        self, recipe: _Recipe, unit: Unit, definition: Function, namespace: Mapping[str, Any]
    ) -> None:
        self.recipe = recipe
        self.unit = unit
        self.definition = definition
        super().__init__(python_function(unit, definition, namespace))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Compile the file again in the other process."""
        return _jit_kernel, (self.recipe, self.name)


class Kernel(KernelInterface):
    """A kernel of a Triton-C file: `kernel[grid](*arguments, **tunables)`.

    `jit` is the jitted function, whose parameters include the constant arrays of the file. `grid`
    is as for jitted functions; if it is a function, it takes a dict with the arguments and
    tunables by name.
    """

    def __init__(
        self,
        jit: _JITKernel,
        tunables: Mapping[str, tuple[int, ...]],
        constants: Mapping[str, Any],
    ) -> None:
        self.jit = jit
        self.tunables = dict(tunables)
        self.constants = dict(constants)
        self.__name__ = jit.name
        self._tuners: dict[frozenset[str], Autotuner] = {}

    @property
    def fn(self) -> JITFunction[..., Any]:
        """The jitted function, under the name that the wrappers of kernels give it."""
        return self.jit

    def __getitem__(self, grid: Any) -> Any:
        """Return the launch function of this kernel on `grid`."""

        @public_function
        def launch(*args: Any, **kwargs: Any) -> CompiledKernel:
            return self.run(*args, grid=grid, **kwargs)

        return launch

    @public_function
    def run(self, *args: Any, grid: Any, **kwargs: Any) -> CompiledKernel:
        """Launch; tunables that `kwargs` leaves out are chosen by the autotuner."""
        missing = frozenset(self.tunables.keys() - kwargs.keys())
        arguments = {**self.constants, **kwargs}
        if not missing:
            kernel: CompiledKernel = self.jit.run(*args, grid=grid, **arguments)
        else:
            kernel = self._tuner(missing).run(*args, grid=grid, **arguments)
        return kernel

    @public_function
    def space(self, *args: Any, grid: Any = None, per_tile: bool = False, **kwargs: Any) -> Space:
        """Return the search space for these arguments: tunables, and options as for jitted kernels.

        A tunable among `kwargs` has that value, or is a range as in `JITFunction.space`.
        """
        ranges = {name: list(values) for name, values in self.tunables.items()}
        arguments = {**self.constants, **ranges, **kwargs}
        space: Space = self.jit.space(*args, grid=grid, per_tile=per_tile, **arguments)
        return space

    def module(self, **tunables: int) -> Module:
        """Return the kernel's IR; tunables that are left out have their first values."""
        constants = {name: values[0] for name, values in self.tunables.items()} | tunables
        types = {p.name: p.annotation for p in self.jit.parameters if not p.is_constexpr}
        return compile_function(self.jit, types, constants)

    def _tuner(self, missing: frozenset[str]) -> Autotuner:
        tuner = self._tuners.get(missing)
        if tuner is None:
            names = [name for name in self.tunables if name in missing]
            choices = itertools.product(*(self.tunables[name] for name in names))
            configs = [Config(dict(zip(names, values, strict=True))) for values in choices]
            numbers = [p.name for p in self.jit.definition.parameters if not p.type.pointers]
            search = "exhaustive" if len(configs) <= MOST_LISTED else "auto"
            tuner = self._tuners[missing] = autotune(configs, numbers, search=search)(self.jit)
        return tuner

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile the file again in the other process."""
        return _kernel, (self.jit.recipe, self.jit.name)

    def __repr__(self) -> str:
        return f"<Triton-C kernel {self.__name__} of {self.jit.loc.file}>"


class Program:
    """The kernels of a Triton-C file, as attributes; iterating gives them in the file's order."""

    def __init__(self, file: str, kernels: Mapping[str, Kernel]) -> None:
        self._file = file
        self._kernels = dict(kernels)

    def __getattr__(self, name: str) -> Kernel:
        """Return a kernel by its name."""
        kernels: dict[str, Kernel] = self.__dict__.get("_kernels", {})
        if name not in kernels:
            names = ", ".join(kernels) or "none"
            raise AttributeError(f"the file has no kernel `{name}`; its kernels: {names}")
        return kernels[name]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._kernels.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def __repr__(self) -> str:
        return f"<Triton-C program {self._file}: {', '.join(self._kernels)}>"


@public_function
def load(path: str | os.PathLike[str], **values: Any) -> Program:
    """Load a Triton-C file; `values` are what its host statements name, such as C=64.

    Values are numbers and arrays. That of a tunable replaces its values in the file. Raises
    `CompilationError` with the line for a program that is wrong, and `OSError` if the file cannot
    be read.

        program = tile.triton_c.load("conv.tc", C=64, H=28, W=28, shift_h=sh, shift_w=sw)
    """
    return compile(Path(path).read_text(encoding="utf-8"), os.fspath(path), **values)


@public_function
def compile(text: str, file: str = "<triton-c>", /, **values: Any) -> Program:  # noqa: A001
    """Compile the text of a Triton-C file, as `load` does; `file` is its name in messages.

    program = tile.triton_c.compile('''
        const tunable int N = {256, 1024};
        kernel void twice(float* x, int n) {
            int i[N] = get_global_range(0);
            @(i < n) *(x + i) = 2 * ((i < n) ? *(x + i) : 0);
        }''')
    program.twice[(tile.cdiv(n, 256),)](x, n, N=256)
    """
    source = Text(file, text)
    remember_lines(source)
    unit = translate(source, values)
    computed = run(unit, values)
    tunables = tunable_values(unit, computed)
    namespace: dict[str, Any] = {
        name: constexpr(value)
        for name, value in computed.items()
        if isinstance(value, bool | int | float)
    }
    arrays = {name: _array(unit, name, computed) for name in unit.arrays}
    kernels: dict[str, Kernel] = {}
    made: dict[str, TritonCFunction] = {}
    for name, definition in unit.functions.items():
        jit = _JITKernel(_Recipe(text, file, values), unit, definition, namespace)
        made[name] = jit
        if definition.is_kernel:
            if not definition.result.is_void:
                raise CompilationError(
                    f"a kernel returns nothing, and `{name}` returns {definition.result}",
                    loc=definition.loc,
                )
            own = {t: tunables[t] for t in definition.uses if t in tunables}
            constants = {a: arrays[a] for a in definition.uses if a in arrays}
            kernels[name] = Kernel(jit, own, constants)
    for function in made.values():
        function.fn.__globals__.update(made)
    return Program(file, kernels)


def _array(unit: Unit, name: str, computed: Mapping[str, Any]) -> Any:
    value = computed.get(name)
    if not hasattr(value, "dtype"):
        raise ArgumentTypeError(
            f"`{name}` is a pointer at file scope and has no array as its value"
        )
    return value
