"""The decorators of Triton: `jit`, `autotune` and `heuristics`, which take what Triton's take.

They make the kernels, tuners and rules of `tile`. Names that are not parameters of the kernel,
which the decorators of `tile` refuse, are ignored as in Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tile import backends
from tile.backends.base import Target
from tile.compat import knobs
from tile.runtime.arguments.adapt import MockArray, adapt
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import OPTION_FIELDS
from tile.runtime.autotuning.configs import Config as StrictConfig
from tile.runtime.autotuning.heuristics import Heuristics
from tile.runtime.jit import JITFunction
from tile.runtime.specialize import Rule, runtime_key
from tile.runtime.target_selection import DEFAULT, qualified_target
from tile.tracebacks import public_class, public_function

SELECTIONS = ("do_not_specialize", "do_not_specialize_on_alignment")


@public_class
class Config(StrictConfig):
    """A configuration, as `tile.Config`; names of options in the dict have no effect, as in Triton.

    `Config({"BLOCK": 64, "num_warps": 8})` has 4 warps, the default of the option itself.
    """

    def __post_init__(self) -> None:
        if isinstance(self.kwargs, Mapping):
            self.kwargs = {k: v for k, v in self.kwargs.items() if k not in OPTION_FIELDS}
        super().__post_init__()


class InterpretedFunction(JITFunction[..., Any]):
    """A kernel that was decorated under `TRITON_INTERPRET=1`: it runs on the interpreter."""

    def _target(self, adapted: list[Any]) -> Target:
        target = Target.parse(qualified_target(DEFAULT))
        return backends.get(target.backend).resolve(target, ())


@public_function
def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function just in time, as `tile.jit` does; use it as a decorator.

    Under `TRITON_INTERPRET=1` the kernel runs on the interpreter, and under `TRITON_DEBUG=1` it is
    compiled with `debug`.
    """

    @public_function
    def decorate(fn: Callable[..., Any]) -> JITFunction[..., Any]:
        kind = InterpretedFunction if knobs.runtime.interpret else JITFunction
        settings = {**options, "debug": options.get("debug") or knobs.runtime.debug or None}
        for name in SELECTIONS:
            settings[name] = _parameters(fn, settings.get(name))
        settings |= {"loose_annotations": True, "whole_storage": True}
        return kind(fn, launch_defaults=knobs.launch_defaults, **settings)

    return decorate if fn is None else decorate(fn)


def _parameters(fn: Callable[..., Any], selected: Iterable[str | int] | None) -> list[str | int]:
    """Return the names and positions of parameters of a function; others are ignored."""
    code = getattr(fn, "__code__", None)
    if code is None or selected is None:
        return []
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [one for one in selected if one in names or one in range(len(names))]


@public_function
def autotune(
    configs: Any,
    key: Any,
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Any = None,
    restore_value: Any = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Choose among `configs` by benchmarking, as `tile.autotune` does; use it as a decorator."""

    @public_function
    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn,
            fn.arg_names,
            configs,
            key,
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=prune_configs_by,
            warmup=warmup,
            rep=rep,
            use_cuda_graph=use_cuda_graph,
            do_bench=do_bench,
            cache_results=cache_results,
        )

    return decorate


@public_function
def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Compute meta-parameters by `values[name](arguments)`; use it as a decorator.

    A computed value replaces one that a call passes.
    """

    @public_function
    def decorate(fn: Any) -> Heuristics:
        return Heuristics(fn, fn.arg_names, values)

    return decorate


def get_full_name(fn: Callable[..., Any]) -> str:
    """Return the module and qualified name of a function."""
    return f"{fn.__module__}.{fn.__qualname__}"


def mangle_type(arg: Any, specialize: bool = False) -> str:
    """Return the type of an argument as in signatures, such as `"*fp32"` or `"i32"`."""
    if arg is None:
        return "constexpr"
    value = arg if isinstance(arg, MockArray) else adapt(arg, "the argument of mangle_type")
    key = runtime_key(value, Rule("the argument", ones=specialize, alignment=specialize))
    return str(key).partition(":")[0]
