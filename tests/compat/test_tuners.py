"""Subclasses of the autotuner and of kernels' interface, as libraries write them."""

import builtins
import inspect
import time

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.libraries.autotuners import limit

CONFIGS = [tile.Config({"BLOCK": block}) for block in (4, 8, 16)]


@tile.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, i < n) + 1, i < n)


def grid(meta):
    return (tile.cdiv(meta["n"], meta["BLOCK"]),)


class CachedAutotuner(tile.Autotuner):
    """As FLA's: fills the cache from elsewhere, by Triton's key."""

    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, **kwargs) -> None:
        super().__init__(fn, arg_names, configs, key, reset_to_zero, restore_value, **kwargs)
        self.kernel_name = fn.fn.__name__
        self.stored = None

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        named = {k: v for k, v in {**self.nargs, **kwargs}.items() if k in self.arg_names}
        key = [named[name] for name in self.keys if name in named]
        key += [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        if self.stored is not None:
            self.cache[tuple(key)] = self.stored
        return super().run(*args, **kwargs)


def test_a_cache_of_a_subclass_is_used() -> None:
    assert "cache_results" in inspect.signature(tile.Autotuner.__init__).parameters
    kernel = CachedAutotuner(add_one, add_one.arg_names, CONFIGS, ["n"], None, None)
    kernel.stored = CONFIGS[1]
    x = np.zeros(10)
    kernel[grid](x, 10)
    assert kernel.best_config is CONFIGS[1]
    assert kernel.kernel_name == "add_one" and kernel.configs_timings == {}
    np.testing.assert_array_equal(x, 1)


class Tuner(tile.Autotuner):
    """As FlagGems': times all configurations in its own way, with the hooks of the base."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.hooks = []

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        key = (args[1],)
        if key not in self.cache:
            configs = self.prune_configs(kwargs)
            started = time.time()
            timings = {c: self._bench(*args, config=c, **kwargs) for c in configs}
            self.bench_time = time.time() - started
            self.cache[key] = builtins.min(timings, key=timings.get)
            self.pre_hook({**self.nargs, **kwargs, **self.cache[key].all_kwargs()}, reset_only=True)
            self.configs_timings = timings
        config = self.best_config = self.cache[key]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result


def test_bench_restores_what_it_changes() -> None:
    kernel = Tuner(
        add_one, ["x_ptr", "n", "BLOCK"], CONFIGS, ["n"], None, None,
        prune_configs_by={"early_config_prune": lambda configs, nargs, **kwargs: configs[:2]},
        warmup=0, rep=0,
    )  # fmt: skip
    x = np.zeros(10)
    kernel[grid](x, 10)
    np.testing.assert_array_equal(x, 1)
    assert set(kernel.configs_timings) == set(CONFIGS[:2])
    assert all(len(times) == 3 for times in kernel.configs_timings.values())
    assert kernel.fn is add_one and kernel.base_fn is add_one.fn


def test_default_hooks_reset_and_restore() -> None:
    kernel = tile.Autotuner(add_one, add_one.arg_names, CONFIGS, ["n"], ["x_ptr"], ["n_counts"])
    x, counts = np.ones(4), np.ones(2)
    kernel.pre_hook({"x_ptr": x, "n_counts": counts})
    counts[:] = 5
    assert x.tolist() == [0.0] * 4 and list(kernel.restore_copies) == ["n_counts"]
    kernel.post_hook({"x_ptr": x, "n_counts": counts}, exception=None)
    assert counts.tolist() == [1.0, 1.0] and kernel.restore_copies == {}
    assert not kernel.user_defined_pre_hook and not kernel.user_defined_post_hook
    hooked = tile.Autotuner(add_one, add_one.arg_names, CONFIGS, [], None, None, pre_hook=print)
    assert hooked.user_defined_pre_hook and hooked.pre_hook is print


def test_disk_cache_of_a_subclass() -> None:
    class Stored(tile.Autotuner):
        def check_disk_cache(self, tuning_key, configs, bench_fn):
            self.cache[tuning_key] = configs[2]
            return True

    kernel = Stored(add_one, add_one.arg_names, CONFIGS, ["n"], None, None, cache_results=True)
    kernel[grid](np.zeros(10), 10)
    assert kernel.best_config is CONFIGS[2] and kernel.configs_timings == {}


def test_names_that_are_no_parameters_are_ignored_by_the_classes_only(triton) -> None:
    x = np.zeros(10)
    kernel = triton.autotune(configs=CONFIGS[:1], key=["n", "dtype"])(add_one)
    kernel[grid](x, 10)
    np.testing.assert_array_equal(x, 1)
    kernel = triton.jit(do_not_specialize=["nothing", 7, 1])(add_one.fn)
    assert [p.num for p in kernel.params if p.do_not_specialize] == [1]
    with pytest.raises(TypeError, match="key names 'dtype'"):
        tile.autotune(CONFIGS, key=["n", "dtype"])(add_one)


def test_heuristics_replace_what_a_call_passes(triton) -> None:
    x = np.zeros(10)
    rules = {"BLOCK": lambda args: 16 if args["n"] > 8 else 8}
    kernel = triton.heuristics(rules)(add_one)
    compiled = kernel[1,](x, 10, BLOCK=4)
    assert compiled.constants == {"BLOCK": 16}
    assert kernel.values == rules and kernel.fn is add_one
    same = triton.runtime.Heuristics(add_one, add_one.arg_names, rules)
    assert same.arg_names == ["x_ptr", "n", "BLOCK"]
    with pytest.raises(TypeError, match="chosen by @heuristics, and passed"):
        tile.heuristics(rules)(add_one)[1,](x, 10, BLOCK=4)


def test_configurations_can_change() -> None:
    config = tile.Config({"BLOCK": 8}, num_warps=2)
    config.num_warps = 8
    config.kwargs["BLOCK"] = 4
    assert config.all_kwargs() == {"BLOCK": 4, "num_warps": 8, "num_stages": 3, "num_ctas": 1}
    assert config == tile.Config({"BLOCK": 4}, num_warps=8)
    assert hash(config) == hash(tile.Config({"BLOCK": 4}, num_warps=8))


def test_options_in_the_dict_have_no_effect(triton) -> None:
    config = triton.Config({"BLOCK": 8, "num_warps": 8, "num_stages": 1}, num_stages=2)
    assert config.kwargs == {"BLOCK": 8}
    assert (config.num_warps, config.num_stages) == (4, 2)


def test_pruning_everything_is_an_error_of_the_tuner(triton) -> None:
    from triton.runtime.errors import AutotunerError

    kernel = triton.autotune(
        CONFIGS, key=[], prune_configs_by={"early_config_prune": lambda *args, **kwargs: []}
    )(add_one)
    with pytest.raises(AutotunerError, match="left no configuration"):
        kernel[grid](np.zeros(10), 10)


def test_one_failing_configuration_does_not_end_tuning(triton) -> None:
    @triton.jit
    def kernel(x_ptr, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK != 8)
        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

    tuned = triton.autotune(CONFIGS, key=["n"], warmup=0, rep=0)(kernel)
    tuned[1,](np.zeros(16), 1)
    assert tuned.configs_timings[CONFIGS[1]] == [float("inf")] * 3
    assert "static assertion failed" in tuned.skipped[CONFIGS[1]]
    with pytest.raises(triton.compiler.errors.CompileTimeAssertionFailure):
        kernel[1,](np.zeros(16), 1, 8)


class LibEntry(tile.runtime.interface.KernelInterface):
    """As FlagGems': keeps compiled kernels by arguments and launches them itself."""

    def __init__(self, fn) -> None:
        self.fn, self.arg_names, self.cache = fn, fn.arg_names, {}
        while not isinstance(fn, tile.JITFunction):
            fn = fn.fn
        self.jit_function = fn
        self.specialized = [
            p.num for p in fn.params if not p.is_constexpr and not p.do_not_specialize
        ]

    def run(self, *args, **kwargs):
        grid = kwargs["grid"]
        key = tuple(str(getattr(args[i], "dtype", args[i])) for i in self.specialized)
        if key not in self.cache:
            kernel = self.fn.run(*args, **kwargs)
            fn, constants = self.fn, {}
            while not isinstance(fn, tile.JITFunction):
                if isinstance(fn, tile.Autotuner):
                    constants.update(fn.best_config.kwargs)
                elif isinstance(fn, tile.Heuristics):
                    named = {**dict(zip(fn.arg_names, args)), **kwargs, **constants}
                    constants.update({name: rule(named) for name, rule in fn.values.items()})
                fn = fn.fn
            self.cache[key] = kernel, constants
            return kernel
        kernel, constants = self.cache[key]
        named = {**dict(zip(self.arg_names, args)), **constants}
        extents = (*grid(named), 1, 1)[:3]
        kernel[extents](*[named[name] for name in self.arg_names])
        return kernel


def test_a_kernel_of_a_library_around_tuners() -> None:
    tuned = tile.autotune(CONFIGS[1:2], key=["n"])(add_one)
    entry = LibEntry(tuned)
    x = np.zeros(10)
    for _ in range(3):
        entry[grid](x, 10)
    np.testing.assert_array_equal(x, 3)
    assert len(entry.cache) == 1


def test_autotuners_of_libraries_try_the_same_configurations() -> None:
    """`tests/libraries` limits them, by the name of the kernel."""
    configs = [tile.Config({"BLOCK": block}) for block in range(10)]
    tuners = [tile.autotune(some, key=[])(add_one) for some in (configs, configs, configs[:2])]
    for tuner in tuners:
        limit(tuner, 3)
    first, second, few = (tuner.configs for tuner in tuners)
    assert first == second
    assert len(first) == 3 and set(first) <= set(configs)
    assert few == configs[:2]
