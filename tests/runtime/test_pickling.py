"""Kernels and what belongs to them, pickled: to this process, to others, and by cloudpickle."""

from __future__ import annotations

import copy
import importlib.util
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import CompilationError, HookError, OutOfBoundsError
from tile.language.base.builtin import Builtin
from tile.location import Loc

# From Python 3.12 on, a fork of a process with threads warns, and test runners have threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@tile.jit
def fill(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, 1.0, mask=i < n)


@tile.jit
def unmasked(x_ptr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 1.0)


@tile.jit
def undefined(x_ptr):
    tl.store(x_ptr, missing)  # noqa: F821


CONFIGS = [tile.Config({"B": 4}), tile.Config({"B": -3}), tile.Config({"B": 16})]


@tile.autotune(CONFIGS, key=["n"], warmup=0, rep=0)
@tile.jit
def tuned(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, 1.0, mask=i < n)


@tile.heuristics({"B": lambda arguments: 16})
@tile.autotune([tile.Config({}, num_warps=n) for n in (1, 2)], key=["n"], warmup=0, rep=0)
@tile.jit
def ruled(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < n)


@tile.constexpr_function
def twice(value):
    return 2 * value


def sixteen(arguments: dict[str, Any]) -> int:
    return 16


def fails(arguments: dict[str, Any]) -> None:
    raise ValueError("of the hook")


@tile.testing.perf_report(tile.testing.Benchmark(["n"], [1], "k", ["a"], ["a"], "plot", {}))
def benchmark(n: int, k: str) -> float:
    return 1.0


under_another_name = tile.autotune(CONFIGS, key=["n"], warmup=0, rep=0)(fill)
hooked = tile.autotune([tile.Config({"B": 4}, pre_hook=fails)], key=[])(fill)


def made() -> tile.JITFunction:
    @tile.jit
    def inner(x_ptr):
        tl.store(x_ptr, 2.0)

    return inner


of_a_function = made()


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def filled(kernel: Any, *rest: Any, **constants: Any) -> np.ndarray:
    x = np.zeros(10, np.float32)
    kernel[(3,)](x, *rest, **constants)
    return x


# -- functions, by name


FUNCTIONS = {
    "kernel": fill,
    "tuned": tuned,
    "kernel in a tuned one": tuned.fn,
    "rules": ruled,
    "tuned in rules": ruled.fn,
    "kernel in rules": ruled.fn.fn,
    "other name": under_another_name,
    "made by a function": of_a_function,
    "constexpr function": twice,
    "benchmark": benchmark,
    **{f"tl.{n}": getattr(tl, n) for n in ("load", "abs", "max", "cdiv", "softmax", "dtype")},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_the_same_in_the_same_process(name: str) -> None:
    function = FUNCTIONS[name]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(function, protocol)) is function
    assert copy.copy(function) is function and copy.deepcopy(function) is function


def test_every_function_of_the_language() -> None:
    names = [name for name in tl.__all__ if isinstance(getattr(tl, name), Builtin)]
    assert len(names) > 80
    for name in names:
        assert again(getattr(tl, name)) is getattr(tl, name), name


def test_every_public_object() -> None:
    """A public object of `tile` unpickles to itself; modules cannot be pickled."""
    for name in tile.__all__:
        value = getattr(tile, name)
        if not isinstance(value, ModuleType):
            assert again(value) is value, name


def test_a_kernel_inside_of_a_function_is_refused() -> None:
    with pytest.raises(pickle.PicklingError) as caught:
        pickle.dumps(made())
    assert str(caught.value) == (
        "`made.<locals>.inner` cannot be pickled: other processes find it by module and name, and "
        "it is defined inside of `made`; define it at the top level of a module"
    )
    assert copy.deepcopy([made()])  # needs no name


def test_a_kernel_that_has_lost_its_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, data = unmasked, pickle.dumps(unmasked)
    monkeypatch.setattr(sys.modules[__name__], "unmasked", None)
    with pytest.raises(pickle.PicklingError, match="has something else under this name"):
        pickle.dumps(kernel)
    monkeypatch.delattr(sys.modules[__name__], "unmasked")
    with pytest.raises(pickle.UnpicklingError, match="define it in a file that both"):
        pickle.loads(data)


def test_wrappers_without_a_name_go_as_what_they_are_made_of() -> None:
    rules = tile.heuristics({"B": sixteen})(tile.autotune([], key=["n"], warmup=1)(fill))
    got = again(rules)
    assert got is not rules and got.fn.fn is fill
    assert got.fn.keys == ("n",)
    assert filled(got, 10).all()


# -- data


def described(value: Any) -> Any:
    """Return what must be equal after unpickling."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, type(value)
    if isinstance(value, tile.TensorDescriptor):
        return value.shape, value.strides, value.block_shape, value.padding, value.base.tolist()
    if isinstance(value, tile.CompiledKernel):
        facts = dict(vars(value.metadata))
        return repr(value), value.asm, facts, value.leaves
    return type(value), str(value)


def report() -> Any:
    with tile.sanitize("all", collect=True) as actual:
        unmasked[(1,)](np.zeros(4, np.float32), B=8)
    return actual


def trace() -> Any:
    with tile.trace() as actual:
        unmasked[(1,)](np.zeros(8, np.float32), B=8)
    return actual


DATA = {
    "Config": lambda: tile.Config({"B": 3}, num_warps=2, maxnreg=32),
    "MockArray": lambda: tile.MockArray("*fp32"),
    "TensorDescriptor": lambda: tile.TensorDescriptor.from_tensor(np.zeros((8, 8)), [4, 4]),
    "empty": lambda: tile.empty((2, 3)),
    "pointers": lambda: tile.pointers([np.zeros(2), np.ones(3)]),
    "constexpr": lambda: tl.constexpr(3),
    "report": report,
    "trace": trace,
    "warmed up": lambda: fill.warmup(np.float32, 6, B=4),
    "compiled": lambda: tile.compile(fill, {"x_ptr": "*fp32:16", "n": "i32"}, {"B": 4}),
    "of a dtype": lambda: fill.warmup(tl.float16, 8, B=tl.constexpr(4)),
    "threads": lambda: tile.compile(
        fill, {"x_ptr": "*fp32", "n": "i32"}, {"B": 4}, target="interp:generic"
    ),
    "steps": lambda: tile.compile(
        fill, {"x_ptr": "*fp32", "n": "i32"}, {"B": 4}, target="interp:steps"
    ),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("way", [again, copy.copy, copy.deepcopy])
def test_data_is_equal_again(name: str, way: Any) -> None:
    value = DATA[name]()
    assert described(way(value)) == described(value)


def test_number_types_are_the_same_objects() -> None:
    types = {name: getattr(tl, name) for name in tl.__all__}
    scalars = {n: t for n, t in types.items() if isinstance(t, type(tl.float32))}
    assert len(scalars) >= 13
    for name, scalar in scalars.items():
        assert again(scalar) is scalar and copy.deepcopy(scalar) is scalar, name
    assert again(tl.pointer_type(tl.float16)) == tl.pointer_type(tl.float16)


@pytest.mark.parametrize("name", ["warmed up", "compiled", "threads", "steps"])
def test_compiled_kernels_run_again(name: str) -> None:
    kernel = again(DATA[name]())
    assert "executable" not in vars(kernel)  # it is loaded where it is launched
    assert filled(kernel, 10).tolist() == [1] * 10
    artifact = again(kernel.artifact)
    assert (artifact.kernel, artifact.stages) == (kernel.artifact.kernel, kernel.artifact.stages)


def test_faults_of_compiled_kernels_have_their_place() -> None:
    kernel = again(unmasked.warmup(np.float32, B=8))
    with pytest.raises(OutOfBoundsError) as caught:
        kernel[(1,)](np.zeros(4, np.float32))
    assert caught.value.loc == fault().loc


def test_pointers_lead_to_the_arrays_that_came_along() -> None:
    arrays = [np.arange(4.0), np.arange(8.0)[::-2]]
    pointers = tile.pointers(arrays)[1::-1] + 8
    got = again(pointers)
    assert [target.tolist() for target in got.targets] == [array.tolist() for array in arrays]
    offsets = got.view(np.uint64) - [target.ctypes.data for target in got.targets[::-1]]
    assert offsets.tolist() == [8, 8]
    with pytest.raises(pickle.PicklingError, match="outside the arrays"):
        pickle.dumps(pointers + (1 << 20))


def test_arrays_know_what_was_written() -> None:
    x = tile.empty((2, 3))
    x[1, :2] = 5
    got = again(x)
    assert got.written.tolist() == x.written.tolist()
    assert got[1, :2].tolist() == [5, 5]


# -- errors


def fault() -> OutOfBoundsError:
    with pytest.raises(OutOfBoundsError) as caught:
        unmasked[(1,)](np.zeros(4, np.float32), B=8)
    return caught.value


def test_errors_keep_what_they_know() -> None:
    error = fault()
    got = again(error)
    assert (type(got), str(got), got.loc, got.notes) == (
        type(error),
        str(error),
        error.loc,
        error.notes,
    )
    assert got.fault.as_dict() == error.fault.as_dict()


@pytest.mark.parametrize(
    "kind",
    [
        k
        for k in vars(tile.errors).values()
        if isinstance(k, type) and issubclass(k, tile.TileError)
    ],
)
def test_errors_of_every_class(kind: type[tile.TileError]) -> None:
    error = kind("message", loc=Loc("k.py", 3, caller=Loc("k.py", 9)), notes=["note"])
    got = again(error)
    assert type(got) is kind
    assert vars(got) == vars(error) and got.args == error.args


# -- other processes


def work(kernel: Any, *rest: Any) -> list[float]:
    return filled(kernel, 10, *rest).tolist()


def compiled(kernel: Any) -> Any:
    return kernel.warmup(np.float32, 6, B=4)


def launched(kernel: Any, *arguments: Any, **constants: Any) -> Any:
    return kernel[(1,)](*arguments, **constants)


@pytest.fixture(scope="module", params=["fork", "spawn"])
def pool(request: pytest.FixtureRequest) -> Any:
    context = multiprocessing.get_context(request.param)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


ONES = [1.0] * 10


def test_kernels_go_to_process_pools(pool: ProcessPoolExecutor) -> None:
    tasks = [tuned, ruled, under_another_name, compiled(fill)]
    assert list(pool.map(work, tasks)) == [ONES] * len(tasks)


def test_compiled_kernels_come_from_process_pools(pool: ProcessPoolExecutor) -> None:
    assert work(pool.submit(compiled, fill).result()) == ONES


def test_errors_come_from_process_pools(pool: ProcessPoolExecutor) -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        pool.submit(launched, unmasked, x, B=8).result()
    assert str(caught.value) == str(fault())
    assert caught.value.fault is not None
    with pytest.raises(CompilationError, match="`missing` is not defined"):
        pool.submit(launched, undefined, x).result()
    with pytest.raises(HookError, match="the pre_hook of configuration B: 4"):
        pool.submit(launched, hooked, x, 4).result()


def test_configurations_compile_in_processes(pool: ProcessPoolExecutor) -> None:
    kernel = tile.autotune(CONFIGS, key=["n"], warmup=0, rep=0, executor=pool)(fill)
    x = np.zeros(10, np.float32)
    kernel[lambda meta: (tile.cdiv(10, meta["B"]),)](x, 10)
    assert x.tolist() == ONES
    assert list(kernel.skipped) == [CONFIGS[1]]
    assert "-3, is not above" in kernel.skipped[CONFIGS[1]]


MAIN = """\
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import tile
import tile.language as tl


@tile.jit
def fill(x_ptr):
    tl.store(x_ptr, {value})


def work(kernel):
    x = np.zeros(1)
    kernel[(1,)](x)
    return x[0]


if __name__ == "__main__":
    {body}
"""


def run(folder: Path, value: str, *body: str) -> str:
    program = folder / "program.py"
    program.write_text(MAIN.format(value=value, body="\n    ".join(body)))
    environment = {**os.environ, "TILE_BACKEND": "interp"}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_kernels_of_a_program(tmp_path: Path, method: str) -> None:
    context = f"multiprocessing.get_context({method!r})"
    body = [
        f"with ProcessPoolExecutor(1, mp_context={context}) as pool:",
        "    print(pool.submit(work, fill).result())",
        "    print(pool.submit(work, fill.warmup(np.float64)).result())",
    ]
    assert run(tmp_path, "3.0", *body) == "3.0\n3.0\n"


needs_cloudpickle = pytest.mark.skipif(
    importlib.util.find_spec("cloudpickle") is None, reason="cloudpickle is not installed"
)


@needs_cloudpickle
def test_cloudpickle_takes_a_programs_kernels_by_value(tmp_path: Path) -> None:
    dump = [
        "import cloudpickle, sys",
        "rules = tile.heuristics({})(tile.autotune([], [])(fill))",
        "with open('data', 'wb') as file:",
        "    cloudpickle.dump((fill, rules, lambda: work(fill)), file)",
    ]
    load = "os.system(f'{sys.executable} load.py')"
    program = [*dump, "import os; os.remove('program.py')", load]  # as if it were another machine
    (tmp_path / "load.py").write_text(
        "import pickle\n"
        "with open('data', 'rb') as file:\n"
        "    kernel, rules, function = pickle.load(file)\n"
        "import numpy as np\n"
        "x = np.zeros(1)\n"
        "kernel[(1,)](x)\n"
        "y = np.zeros(1)\n"
        "rules[(1,)](y)\n"
        "print(x[0], y[0], function())\n"
    )
    out = run(tmp_path, "3.0", f"import os; os.chdir({str(tmp_path)!r})", *program)
    assert out == "3.0 3.0 3.0\n"


@needs_cloudpickle
def test_cloudpickle_takes_other_kernels_by_name() -> None:
    import cloudpickle

    for name, function in FUNCTIONS.items():
        assert pickle.loads(cloudpickle.dumps(function)) is function, name
    kernel = pickle.loads(cloudpickle.dumps(made()))
    x = np.zeros(1)
    kernel[(1,)](x)
    assert x[0] == 2
