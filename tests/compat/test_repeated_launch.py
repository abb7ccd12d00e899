"""Launches of TorchInductor's kernels are repeated without the work of a first launch."""

import pickle
import sys
from types import ModuleType, SimpleNamespace

import pytest

from tile.compat import torch_kernels
from tile.compat.early_compile import HEURISTICS

FLAGS = ("triton_interpret", "dump_launch_params", "dump_launch_tensors")


class CachingAutotuner:
    """The outline of PyTorch 2.11's class: `run` counts its calls, and calls the launcher."""

    def __init__(self, launcher):
        self.launchers = [launcher]
        self.runs = 0
        self.triton_interpret = self.dump_launch_params = self.dump_launch_tensors = False

    def run(self, *args, stream, benchmark_run=False, **kwargs):
        self.runs += 1
        return self.launchers[0](*args, **kwargs, stream=stream)

    def prepare_for_pickle(self):
        self.launchers = []


class DebugAutotuner(CachingAutotuner):
    """A class whose own `run` does more."""


class KeepsLauncher(CachingAutotuner):
    """PyTorch 2.13's class repeats launches itself."""

    def run(self, *args, stream):
        return self._cached_launcher(*args, stream=stream)


@pytest.fixture
def heuristics(monkeypatch):
    """Install a stand-in for PyTorch's module, with its names replaced; undo both after the test."""
    module = ModuleType(HEURISTICS)
    module.CachingAutotuner = CachingAutotuner
    module.autograd_profiler = SimpleNamespace(_is_profiler_enabled=False)
    module.debug_mode = None
    module.get_active_debug_mode = lambda: module.debug_mode
    monkeypatch.setitem(sys.modules, HEURISTICS, module)
    torch_kernels.replace(module)
    yield module
    torch_kernels.restore(module)


def launcher(x, *, stream):
    return x, stream


launcher.store_cubin = False


def test_a_launch_is_repeated_without_the_method(heuristics):
    autotuner = CachingAutotuner(launcher)
    assert [autotuner.run(x, stream=7) for x in range(4)] == [(x, 7) for x in range(4)]
    assert autotuner.runs == 1


def test_a_profiler_and_a_debug_mode_see_each_launch(heuristics):
    autotuner = CachingAutotuner(launcher)
    autotuner.run(0, stream=7)
    heuristics.autograd_profiler._is_profiler_enabled = True
    assert autotuner.run(1, stream=7) == (1, 7)
    heuristics.autograd_profiler._is_profiler_enabled = False
    heuristics.debug_mode = object()
    assert autotuner.run(2, stream=7) == (2, 7)
    assert autotuner.runs == 3
    heuristics.debug_mode = None
    autotuner.run(3, stream=7)
    assert autotuner.runs == 3


def test_a_launch_with_keywords_takes_the_method(heuristics):
    autotuner = CachingAutotuner(launcher)
    autotuner.run(0, stream=7)
    assert autotuner.run(1, stream=7, benchmark_run=True) == (1, 7)
    assert autotuner.runs == 2


@pytest.mark.parametrize("flag", FLAGS)
def test_flags_of_debugging_keep_the_method(heuristics, flag):
    autotuner = CachingAutotuner(launcher)
    setattr(autotuner, flag, True)
    for _ in range(3):
        autotuner.run(0, stream=7)
    assert autotuner.runs == 3


def test_a_launcher_that_stores_its_cubin_and_a_subclass_keep_the_method(heuristics):
    storing = CachingAutotuner(lambda x, *, stream: (x, stream))
    storing.launchers[0].store_cubin = True
    debugging = DebugAutotuner(launcher)
    for autotuner in (storing, debugging):
        for _ in range(3):
            autotuner.run(0, stream=7)
        assert autotuner.runs == 3


def test_an_autotuner_is_pickled_after_launches(heuristics):
    autotuner = CachingAutotuner(launcher)
    for _ in range(2):
        autotuner.run(0, stream=7)
    autotuner.prepare_for_pickle()
    copy = pickle.loads(pickle.dumps(autotuner))
    assert (copy.launchers, copy.runs) == ([], 1)


@pytest.mark.parametrize(("global_scratch", "profile_scratch"), [(False, False), (True, True)])
def test_a_static_launcher_calls_the_function_in_c(heuristics, global_scratch, profile_scratch):
    calls = []

    class Kernel:
        function, num_warps, shared, arg_tys = 123, 4, 1024, "Oi"
        has_global_scratch, has_profile_scratch = global_scratch, profile_scratch
        C_impl = SimpleNamespace(_launch_kernel=lambda *arguments: calls.append(arguments))

        def run(self, *arguments):
            calls.append("in Python")

    scope = {"runner": Kernel().run}
    exec("def launch(x, n, stream): runner((n + 31) // 32, 2, 1, stream, x, n)", scope)
    static = scope["launch"]
    static.store_cubin, static._is_static = False, True
    autotuner = CachingAutotuner(static)
    for n in (64, 65):
        autotuner.run("x", n, stream=7)
    scratch = 2 * global_scratch
    expected = (123, 3, 2, 1, 4, 1024, "Oi" + "O" * scratch, ("x", 65) + (None,) * scratch, 7)
    assert calls == ["in Python", expected]


def test_a_version_that_keeps_launchers_keeps_its_method(heuristics):
    heuristics.CachingAutotuner = KeepsLauncher
    before = vars(KeepsLauncher)["run"]
    torch_kernels.replace(heuristics)
    assert vars(KeepsLauncher)["run"] is before


def test_the_methods_are_restored(heuristics):
    torch_kernels.restore(heuristics)
    autotuner = CachingAutotuner(launcher)
    for _ in range(3):
        autotuner.run(0, stream=7)
    assert autotuner.runs == 3
