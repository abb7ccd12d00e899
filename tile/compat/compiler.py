"""`triton.compile`: compile ahead of time from a function and the types of its parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tile.backends.base import Options
from tile.compat.driver import NVPTX, GPUTarget, TileBackend, driver, tile_target
from tile.compat.static_launch import add_cubin, fail_at_assertions
from tile.errors import ArgumentTypeError, UnsupportedError
from tile.runtime import compile as ahead_of_time
from tile.runtime.kernel import CompiledKernel
from tile.short_repr import short_repr
from tile.tracebacks import public_function

Path = tuple[int, ...]
DIVISIBILITY = "tt.divisibility"
CONSTEXPR = "constexpr"


class ASTSource:
    """A function to compile.

    signature: the type of each parameter, `"constexpr"` for constants.
    constexprs: the constants, by name or by path: `{"BLOCK": 64}` or `{(3,): 64}`.
    attrs: attributes by path: `{(0,): [["tt.divisibility", 16]]}`.
    """

    ext = "ttir"

    def __init__(
        self,
        fn: Any,
        signature: Mapping[str, Any],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Path, Any] | None = None,
    ) -> None:
        if not all(isinstance(name, str) for name in signature):
            raise ArgumentTypeError("the keys of a signature are the names of parameters")
        self.fn = fn
        self.name = fn.__name__
        self.signature = dict(signature)
        self.constants = {self._path(key): value for key, value in (constexprs or {}).items()}
        self.attrs = dict(attrs or {})

    def _path(self, key: str | Path) -> Path:
        return (self.fn.arg_names.index(key),) if isinstance(key, str) else tuple(key)

    def hash(self) -> str:
        """Return a hash of the function, the types and the constants."""
        constants = sorted((path, repr(value)) for path, value in self.constants.items())
        text = f"{self.fn.cache_key} {self.attrs} {sorted(self.signature.items())} {constants}"
        return hashlib.sha256(text.encode()).hexdigest()

    def parse_options(self) -> dict[str, Any]:
        """Return no options: a function sets none."""
        return {}

    def types(self) -> dict[str, Any]:
        """Return the types of the runtime parameters, with their divisors."""
        return {
            name: self._divisible(kind, (self.fn.arg_names.index(name),))
            for name, kind in self.signature.items()
            if kind != CONSTEXPR
        }

    def _divisible(self, kind: Any, path: Path) -> Any:
        if isinstance(kind, tuple | list):
            return tuple(self._divisible(item, (*path, i)) for i, item in enumerate(kind))
        if path in self.constants:
            return kind
        divisors = [number for name, number in self.attrs.get(path, ()) if name == DIVISIBILITY]
        return f"{kind}:{divisors[0]}" if divisors and ":" not in kind else kind

    def constexprs(self) -> dict[str, Any]:
        """Return the constants by name."""
        names = self.fn.arg_names
        return {names[path[0]]: value for path, value in self.constants.items() if len(path) == 1}


class IRSource:
    """A file of IR or PTX, which `tile` does not compile."""

    def __init__(self, path: str, context: object = None, backend: object = None) -> None:
        raise UnsupportedError(
            f"cannot compile {path}: it is IR of Triton in MLIR, or PTX, and tile compiles "
            "functions; `tile opt` runs passes on its own IR"
        )


@public_function
def compile(  # noqa: A001 - Triton's name
    src: Any, target: GPUTarget | None = None, options: Mapping[str, Any] | None = None, **_: Any
) -> CompiledKernel:
    """Compile an `ASTSource` for a target, by default the current device.

    Raises `UnsupportedError` for the path of a file of IR, `ArgumentError` for another source or
    target, and `CompilationError`.
    """
    if isinstance(src, str):
        IRSource(src)
    if not isinstance(src, ASTSource):
        raise ArgumentTypeError(f"triton.compile takes an ASTSource, not {short_repr(src)}")
    if target is None:
        target = driver.active.get_current_target()
    if not (hasattr(target, "backend") and hasattr(target, "arch")):
        raise ArgumentTypeError(
            f"the target of triton.compile is a GPUTarget, not {short_repr(target)}"
        )
    chosen = {k: v for k, v in (options or {}).items() if k in Options.names()}
    types = src.types()
    constants = {name: value for name, value in src.constexprs().items() if name not in types}
    compiled_for = tile_target(target)
    # Triton's kernels assume nothing about overlap, and libraries launch them without a check. Nor
    # do Triton's kernels order threads but by barriers: libraries pass arrays that overlap in place
    # only. Nor do libraries make tensor maps of the arrays.
    gpu = compiled_for.backend == NVPTX
    chosen = {"tma": "", **chosen}
    overlap = {"may_overlap": gpu, "unordered": gpu}
    kernel = ahead_of_time.compile(src.fn, types, constants, chosen, compiled_for, **overlap)
    if gpu:
        fail_at_assertions(kernel)
        add_cubin(kernel)
    return kernel


def make_backend(target: GPUTarget) -> TileBackend:
    """Return the compiler for a target."""
    return TileBackend(target)


def get_cache_key(src: ASTSource, backend: TileBackend, backend_options: Any, env_vars: Any) -> str:
    """Return text that identifies a compilation."""
    options = sorted(vars(backend_options).items())
    return f"{src.hash()} {backend.hash()} {options} {sorted(dict(env_vars).items())}"


def max_shared_mem(device: int) -> int:
    """Return the bytes of shared memory that one program can have."""
    return int(driver.active.utils.get_device_properties(device)["max_shared_mem"])
