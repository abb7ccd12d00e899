"""`triton.knobs`: variables, scopes, and hooks."""

import os

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.runtime.callbacks import AUTOTUNE_LISTENERS, COMPILE_CALLBACKS, LAUNCH_CALLBACKS


@pytest.fixture
def knobs(triton):
    yield triton.knobs
    assert not (LAUNCH_CALLBACKS or COMPILE_CALLBACKS or AUTOTUNE_LISTENERS)


def flops(grid, metadata, args):
    return {"flops": args["n"], "name": f"{metadata.name}<{grid[0]}>"}


def new_kernel(**options):
    @tile.jit(**options)
    def fill(x_ptr, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, 1.0, i < n)

    return fill


def test_launch_hooks(knobs) -> None:
    kernel, x, calls = new_kernel(launch_metadata=flops), np.zeros(8), []
    hooks = [
        lambda m: calls.append(("a", m.get())),
        lambda m: calls.append(("b", m.get()["flops"])),
    ]
    with knobs.runtime.scope():
        for hook in hooks:
            knobs.runtime.launch_enter_hook.add(hook)
            knobs.runtime.launch_enter_hook.add(hook)
        knobs.runtime.launch_exit_hook = lambda m: calls.append(("exit", x[0]))
        kernel[1,](x, 5, BLOCK=8)
        kernel[1,](x, 5, BLOCK=8)
        for hook in hooks:
            knobs.runtime.launch_enter_hook.remove(hook)
        knobs.runtime.launch_exit_hook = None
        kernel[1,](x, 5, BLOCK=8)
    assert [name for name, _ in calls] == ["a", "b", "exit"] * 2
    assert calls[0][1]["flops"] == 5 and calls[0][1]["name"] == "fill<1>"
    assert calls[1:3] == [("b", 5), ("exit", 1.0)]


def test_chains_of_exit_hooks_run_in_reverse(knobs) -> None:
    calls = []
    first, second = (lambda m, i=i: calls.append(i) for i in range(2))
    with knobs.runtime.scope():
        knobs.runtime.launch_exit_hook.add(first)
        knobs.runtime.launch_exit_hook.add(second)
        new_kernel()[1,](np.zeros(8), 5, BLOCK=8)
        knobs.runtime.launch_exit_hook.remove(first)
        knobs.runtime.launch_exit_hook.remove(second)
    assert calls == [1, 0]


def test_kernels_are_loaded_once(knobs) -> None:
    calls = []
    kernel = new_kernel()
    with knobs.runtime.scope():
        knobs.runtime.kernel_load_start_hook = lambda *args: calls.append(("start", args[2]))
        knobs.runtime.kernel_load_end_hook = lambda *args: calls.append(("end", args[2]))
        for _ in range(2):
            kernel[1,](np.zeros(8), 5, BLOCK=8)
    assert calls == [("start", "fill"), ("end", "fill")]


def test_hooks_of_compilations(knobs) -> None:
    calls = []

    def hook(*, key, fn, is_manual_warmup, already_compiled, **more):
        repr, compile = more["repr"], more["compile"]
        calls.append((fn.name, fn.jit_function, compile["num_warps"], is_manual_warmup))
        assert repr.startswith(f"{fn.name}[num_warps=2") and "x_ptr: *fp64" in repr
        assert compile["signature"]["BLOCK"] == "constexpr" and compile["constants"] == {(2,): 8}

    kernel, x = new_kernel(), np.zeros(8)
    with knobs.runtime.scope():
        knobs.runtime.jit_post_compile_hook = hook
        kernel[1,](x, 5, BLOCK=8, num_warps=2)
        kernel[1,](x, 5, BLOCK=8, num_warps=2)
        knobs.runtime.jit_cache_hook = hook
        kernel.warmup(x, 16, BLOCK=8, num_warps=2)
    name = kernel.__qualname__
    assert calls == [(name, kernel, 2, False), (name, kernel, 2, True), (name, kernel, 2, True)]


def test_a_true_hook_skips_compiling(knobs) -> None:
    kernel, x = new_kernel(), np.zeros(8)
    with knobs.runtime.scope():
        knobs.runtime.jit_cache_hook = lambda **kwargs: True
        assert kernel[1,](x, 5, BLOCK=8) is None
        assert kernel.warmup(x, 5, BLOCK=8) is None
    assert not x.any() and not kernel.cache
    assert kernel[1,](x, 5, BLOCK=8) is not None and x.any()


def test_listeners(knobs) -> None:
    compiled, tuned = [], []
    knobs.compilation.listener = lambda **kwargs: compiled.append(kwargs)
    knobs.autotuning.listener = lambda **kwargs: tuned.append(kwargs)
    configs = [tile.Config({"BLOCK": block}) for block in (4, 8)]
    kernel = tile.autotune(configs, key=["n"], warmup=0, rep=0)(new_kernel())
    for _ in range(2):
        kernel[1,](np.zeros(8), 5)
    knobs.compilation.listener = knobs.autotuning.listener = None
    assert [c["src"].name for c in compiled] == ["fill"] * 2
    assert compiled[0]["times"].total > 0 and not compiled[0]["cache_hit"]
    (event,) = tuned
    assert event["fn"] is kernel.fn and event["best_config"] in configs
    assert set(event["configs_timings"]) == set(configs) and not event["cache_hit"]


def test_variables(knobs, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    assert knobs.autotuning.print and tile.config.config.print_autotuning
    with knobs.autotuning.scope():
        knobs.autotuning.print = False
        assert os.environ["TRITON_PRINT_AUTOTUNING"] == "0"
        assert not tile.config.config.print_autotuning
    assert knobs.autotuning.print and os.environ["TRITON_PRINT_AUTOTUNING"] == "1"
    knobs.cache.dir = "/somewhere"
    assert str(tile.cache.cache_folder()) == "/somewhere"
    assert knobs.cache.knobs["dir"] == "/somewhere"
    copy = knobs.cache.copy()
    knobs.cache.reset()
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert copy.dir == "/somewhere" != knobs.cache.dir
    assert knobs.redis.port == 6379 and knobs.amd.use_block_pingpong is None


def test_variables_have_no_effect_without_an_installation(monkeypatch) -> None:
    monkeypatch.delenv("TILE_TRITON", raising=False)
    monkeypatch.delenv("TILE_CACHE", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert tile.config.config.cache_dir == "" and tile.config.config.cache
