"""The hooks of `triton.knobs.runtime`: functions around launches and compilations.

They are connected to the runtime's callbacks only while there are any, so that launches without
hooks pay nothing.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tile.ir.types import Scalar
from tile.runtime.callbacks import (
    AUTOTUNE_LISTENERS,
    COMPILE_CALLBACKS,
    LAUNCH_CALLBACKS,
    CompileEvent,
    HookChain,
    LaunchEvent,
)
from tile.runtime.specialize import Constant, spell_leaf

LAUNCHES = ("launch_enter_hook", "launch_exit_hook")
LOADS = ("kernel_load_start_hook", "kernel_load_end_hook")


class Chain:
    """An attribute of a group that is a `HookChain`; an assigned function replaces the chain."""

    def __init__(self, *, backward: bool = False) -> None:
        self.backward = backward
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self
        if self.name not in vars(group):
            vars(group)[self.name] = HookChain(self.backward, functools.partial(connect, group))
        return vars(group)[self.name]

    def __set__(self, group: Any, hook: Callable[..., object] | None) -> None:
        vars(group)[self.name] = hook
        connect(group)


class Single:
    """An attribute of a group that is one function, or None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, group: Any, owner: type) -> Any:
        return self if group is None else vars(group).get(self.name)

    def __set__(self, group: Any, hook: Callable[..., object] | None) -> None:
        vars(group)[self.name] = hook
        connect(group)


class Listener(Single):
    """An attribute of a group that is one function, called after each autotuning; or None."""

    def __set__(self, group: Any, listener: Callable[..., object] | None) -> None:
        self.disconnect(vars(group).get(self.name))
        vars(group)[self.name] = listener
        if listener is not None:
            self.connect(listener)

    def connect(self, listener: Callable[..., object]) -> None:
        """Let the runtime call a listener."""
        AUTOTUNE_LISTENERS.append(listener)

    def disconnect(self, listener: Callable[..., object] | None) -> None:
        """Undo `connect`."""
        if listener in AUTOTUNE_LISTENERS:
            AUTOTUNE_LISTENERS.remove(listener)


@dataclass(frozen=True)
class CompileTimes:
    """The duration of a compilation in microseconds; only the total is measured."""

    total: int
    ir_initialization: int = 0
    lowering_stages: tuple[tuple[str, int], ...] = ()
    store_results: int = 0

    @property
    def total_lowering(self) -> int:
        """The duration of all stages."""
        return self.total


@dataclass(frozen=True)
class _Compilations:
    """The runtime's callback for a listener of compilations."""

    listener: Callable[..., object]
    started: list[float] = field(default_factory=list, compare=False)

    def before(self, event: CompileEvent) -> None:
        self.started.append(time.perf_counter())

    def after(self, event: CompileEvent, kernel: Any) -> None:
        duration = time.perf_counter() - self.started.pop()
        self.listener(
            src=kernel.src,
            metadata=kernel.metadata._asdict(),
            metadata_group={},
            times=CompileTimes(int(duration * 1e6)),
            cache_hit=False,
        )


class CompilationListener(Listener):
    """An attribute of a group that is one function, called after each compilation; or None."""

    def connect(self, listener: Callable[..., object]) -> None:
        COMPILE_CALLBACKS.append(_Compilations(listener))

    def disconnect(self, listener: Callable[..., object] | None) -> None:
        for callback in list(COMPILE_CALLBACKS):
            if isinstance(callback, _Compilations) and callback.listener == listener:
                COMPILE_CALLBACKS.remove(callback)


@dataclass(frozen=True)
class _Connection:
    """The runtime's callbacks for the hooks of one group."""

    group: Any

    def __call__(self, event: LaunchEvent) -> Callable[[], object] | None:
        metadata = event.kernel.launch_metadata(event.grid, 0, *event.arguments.values())
        for name in LOADS:
            self._load(name, event.kernel)
        enter, leave = (getattr(self.group, name) for name in LAUNCHES)
        if enter is not None:
            enter(metadata)
        return None if leave is None else functools.partial(leave, metadata)

    def _load(self, name: str, kernel: Any) -> None:
        """Call a hook of loading a kernel, which happens at its first launch."""
        hook = getattr(self.group, name)
        if hook is not None and "executable" not in vars(kernel):
            if name == LOADS[1]:
                kernel._init_handles()
            hook(None, None, kernel.name, {}, kernel.hash)

    def before(self, event: CompileEvent) -> object:
        return self._compile("jit_cache_hook", event)

    def after(self, event: CompileEvent, kernel: Any) -> object:
        return self._compile("jit_post_compile_hook", event)

    def _compile(self, name: str, event: CompileEvent) -> object:
        hook = getattr(self.group, name)
        return None if hook is None else hook(**_description(event))


def connect(group: Any) -> None:
    """Connect the hooks of a group to the runtime, if there are any; else disconnect them."""
    connection = _Connection(group)
    launches = any(_functions(group, name) for name in (*LAUNCHES, *LOADS))
    compiles = any(vars(group).get(name) for name in ("jit_cache_hook", "jit_post_compile_hook"))
    _set(LAUNCH_CALLBACKS, connection, launches)
    _set(COMPILE_CALLBACKS, connection, compiles)


def _functions(group: Any, name: str) -> bool:
    hook = vars(group).get(name)
    return bool(hook.calls) if isinstance(hook, HookChain) else hook is not None


def _set(callbacks: list[Any], callback: Any, wanted: bool) -> None:
    """Add a callback to a list, or remove it; equal connections are one."""
    if wanted and callback not in callbacks:
        callbacks.append(callback)
    elif not wanted and callback in callbacks:
        callbacks.remove(callback)


@dataclass(frozen=True)
class JitFunctionInfo:
    """The function that a hook of compilations is called for."""

    module: str
    name: str
    jit_function: Any


def _description(event: CompileEvent) -> dict[str, Any]:
    """Return the arguments of a hook of compilations."""
    function = event.function
    signature = {name: spell_leaf(leaf) for name, leaf in event.leaves.items()}
    constants = {
        (index,): leaf.value
        for index, leaf in enumerate(event.leaves.values())
        if isinstance(leaf, Constant)
    }
    options = asdict(event.options)
    full_name = f"{function.__module__}.{function.__qualname__}"
    types = ", ".join(f"{name}: {kind}" for name, kind in signature.items())
    shown = ", ".join(
        f"{name}={options[name]}"
        for name in ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
    )
    key = f"{event.target} {types} {sorted(options.items())}"
    data = {
        "name": full_name,
        "signature": signature,
        "constants": {index: _stored(v) for (index,), v in constants.items() if _is_exact(v)},
        "inexact": [
            list(signature)[index] for (index,), v in constants.items() if not _is_exact(v)
        ],
        "options": {name: value for name, value in options.items() if value is not None},
        "target": str(event.target),
        "key": key,
    }
    compile_info = {
        "key": key,
        "signature": signature,
        "device": 0,
        "constants": constants,
        **options,
        "extern_libs": (),
        "configs": [{}],
        "specialization_data": json.dumps(data, default=str),
        "is_warmup": event.warmup,
    }
    return {
        "key": key,
        "repr": f"{function.__qualname__}[{shown}]({types})",
        "fn": JitFunctionInfo(function.__module__, function.__qualname__, function),
        "compile": compile_info,
        "is_manual_warmup": event.warmup,
        "already_compiled": False,
    }


def _is_exact(value: object) -> bool:
    """Return True for a constant that JSON stores as it is, or a type of elements."""
    return value is None or isinstance(value, bool | int | float | str | Scalar)


def _stored(value: Any) -> Any:
    """Return a constant for JSON; see `tile.runtime.compile.preloaded`."""
    return {"dtype": value.alias} if isinstance(value, Scalar) else value
