"""The disk cache of kernels: other processes load entries, and any difference recompiles."""

from __future__ import annotations

import enum
import gc
import json
import os
import re
import subprocess
import sys
import time
import types
import warnings
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tile
import tile.language as tl
from tests.processes import all_running
from tile import cache
from tile.config import config
from tile.frontend.python.fingerprint import exact_digest
from tile.runtime import kernel_cache

pytest.importorskip("llvmlite", reason="llvmlite is not installed")
pytest.importorskip("cuda.bindings", reason="cuda.bindings is not installed")

ROOT = Path(__file__).parents[2]
TARGET = "nvptx:sm_80"
FACTOR = tl.constexpr(2)


@tile.jit
def scale(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.device_assert(n > 0, "some")
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * FACTOR, mask=i < n)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        yield tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were compiled, rather than found."""
    names: list[str] = []
    real = sys.modules["tile.runtime.compile"].compile_kernel

    def compiled(function: Any, *rest: Any) -> Any:
        names.append(function.name)
        return real(function, *rest)

    monkeypatch.setattr(sys.modules["tile.runtime.compile"], "compile_kernel", compiled)
    return names


def compiled(
    function: Any = scale, n: str = "i32", target: str = TARGET, B: int = 64, **options: Any
) -> Any:
    return tile.compile(function, {"x_ptr": "*fp32:16", "n": n}, {"B": B}, options, target)


def test_a_cached_kernel_equals_the_compiled_one(made: list[str]) -> None:
    one, other = compiled(debug=True), compiled(debug=True)
    assert made == ["scale"]
    assert one.asm == other.asm and list(one.asm) == list(other.asm)
    first, second = one.artifact, other.artifact
    for name in ("kernel", "target", "options", "parameters", "written", "inputs"):
        assert getattr(first, name) == getattr(second, name)
    assert one.executable.metadata == other.executable.metadata
    (assertion,) = other.executable.metadata.assertions
    assert assertion.message == "some" and "device_assert" in assertion.loc.excerpt()
    assert one.written == other.written == {"x_ptr"}


@pytest.mark.parametrize(
    "change",
    [
        {"n": "i64"},
        {"n": "i32:16"},
        {"n": "i32:1"},
        {"B": 128},
        {"target": "nvptx:sm_90a"},
        {"num_warps": 8},
        {"debug": True},
    ],
)
def test_whatever_is_compiled_for_selects_the_entry(made: list[str], change: Any) -> None:
    compiled()
    compiled(**change)
    compiled()
    assert len(made) == 2


def test_captured_values_select_the_entry(made: list[str], monkeypatch) -> None:
    compiled()
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    assert "0f40400000" in compiled(tile.jit(scale.fn)).asm["ptx"]
    assert len(made) == 2


def test_versions_and_settings_select_the_entry(made: list[str], monkeypatch) -> None:
    compiled()
    for name, value in (
        ("tile.backends.nvptx.backend._llvmlite", lambda: "another"),
        ("tile.runtime.kernel_cache.compiler_identity", lambda: "another"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            compiled()
    with config.scope(interp_target="warp64"):  # no variable that is not declared harmless
        compiled()
    assert len(made) == 4


def test_the_compilers_own_files_are_in_the_key() -> None:
    files = list(kernel_cache._modules(str(kernel_cache._PACKAGE)))
    for name in ("simt/pass_pipeline.py", "backends/opencl/emit/library/floats.cl"):
        assert any(f"/tile/{name} " in file for file in files)
    sources = [f for f in kernel_cache._PACKAGE.rglob("*") if f.suffix in kernel_cache._SOURCES]
    assert len(files) == len(sources)


def test_a_compiler_whose_files_cannot_be_seen_keeps_nothing(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_PACKAGE", Path("in an archive.zip/tile"))
    kernel_cache.compiler_identity.cache_clear()
    compiled(), compiled()
    kernel_cache.compiler_identity.cache_clear()
    assert len(made) == 2


def test_who_watches_the_compiler_sees_it(made: list[str], tmp_path: Path) -> None:
    compiled()
    with config.scope(dump=str(tmp_path / "dump")):
        compiled()
    with config.scope(cache=False):
        compiled()
    assert len(made) == 3 and list((tmp_path / "dump").iterdir())


def test_a_library_that_has_changed(made: list[str], monkeypatch) -> None:
    """Kernels that call libdevice depend on its file; others do not."""

    @tile.jit
    def sine(x_ptr, n, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(x_ptr + i, tl.sin(tl.load(x_ptr + i, mask=i < n)), mask=i < n)

    compiled(sine), compiled(sine), compiled()
    assert made == ["sine", "scale"]
    monkeypatch.setattr(kernel_cache, "_current_stamp", lambda path: f"{path} is another")
    compiled(sine), compiled(sine), compiled()
    assert made == ["sine", "scale", "sine"]


def plain(kernel: Any) -> str:
    """The PTX, without the numbers that LLVM gives calls, one after the other in a process."""
    return re.sub(r"callseq \d+", "", kernel.asm["ptx"])


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [damage, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_damaged_entry_is_made_again(made: list[str], folder: Path, harm: Any) -> None:
    text = plain(compiled())
    (path,) = folder.rglob("*.entry")
    harm(path)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert plain(compiled()) == text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain(compiled()) == text
    assert len(made) == 2


def test_a_folder_that_cannot_be_written(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with config.scope(cache_dir=str(tmp_path / "file")):
        with pytest.warns(RuntimeWarning, match="scale for nvptx:sm_80 is not stored"):
            compiled()
        compiled()
    assert len(made) == 2


def test_the_interpreter_keeps_nothing(folder: Path) -> None:
    compiled(target="interp")
    assert not list(folder.rglob("*.entry"))


CHILD = """
import json, sys, time, warnings
warnings.simplefilter("error")
sys.path.insert(0, sys.argv[1])
import tile, child_kernels
wait = float(sys.argv[2])
time.sleep(max(0, wait - time.time()))
kernel = tile.compile(child_kernels.double, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx:sm_80")
kernel.executable
print(json.dumps([kernel.asm["ptx"], sorted(sys.modules)]))
"""
KERNEL = """
import tile
import tile.language as tl

@tile.jit
def double(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)
"""


def children(folder: Path, count: int, start: float = 0.0) -> list[Any]:
    """Return the output of new processes that compile one kernel concurrently."""
    (folder / "child_kernels.py").write_text(KERNEL)
    environment = {**os.environ, "TILE_CACHE": "1", "TILE_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", CHILD, str(folder), str(start)]
    actual = []
    with all_running(command, count, env=environment, stdout=-1, stderr=-1) as running:
        for process in running:
            out, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            actual.append(json.loads(out))
    return actual


# All that a process imports of these packages if it finds its kernels on disk.
WARM: dict[str, set[str]] = {
    "tile.language": {
        *(
            "_functions",
            "base",
            "base.builtin",
            "base.constexpr",
            "base.static_args",
            "base.tensor",
        ),
    },
    "tile.frontend": {
        *("python", "python.aggregates", "python.fingerprint", "python.source"),
        "python.constexpr_function",
    },
    "tile.ir": {
        *("descriptor_type", "dtype_members", "extents", "layout_kinds", "numpy_dtypes"),
        *("types", "unique"),
    },
    "tile.backends.nvptx": {
        *("architectures", "backend", "driver", "fast_launch", "host_code", "host_staging"),
        *(
            "address_reader",
            "descriptor_maker",
            "inline_cache",
            "launch",
            "launch_metadata",
            "launch_stub",
            "loaded_module",
            "ptxas",
            "tensor_maps",
            "toolkit",
        ),
    },
    **{
        name: set()
        for name in ("tile.analysis", "tile.codegen", "tile.transforms", "tile.simt", "tile.tools")
    },
}


def test_processes_at_once_and_afterwards(folder: Path) -> None:
    texts = {ptx for ptx, _ in children(folder, 3, start=time.time() + 2)}
    assert len(texts) == 1
    assert len(list(folder.rglob("*.entry"))) == 1 and not list(folder.rglob("*.tmp"))
    ((ptx, modules),) = children(folder, 1)
    assert {ptx} == texts
    assert "llvmlite" not in modules
    ours = {name for name in modules if name.startswith("tile.")}
    for package, expected in WARM.items():
        inside = {name[len(package) + 1 :] for name in ours if name.startswith(f"{package}.")}
        assert inside <= expected, "a kernel that is found needs no compiler"


# -- what can be told exactly


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    x: int
    y: int = 2


class Opaque:
    def __repr__(self) -> str:
        return "always the same"


def digest(value: object) -> str | None:
    return exact_digest(scale, {"value": value})


def test_constants_that_differ_have_other_digests() -> None:
    other = enum.Enum("Color", {"RED": 2, "BLUE": 1})
    other.__module__, other.__qualname__ = Color.__module__, Color.__qualname__
    pair = namedtuple("Pair", ["x", "y"], defaults=[3], module=Pair.__module__)
    values: list[Any] = [
        1, True, 1.0, "1", None, (1,), [1], {1: 2}, {1: 3}, -0.0, 0.0, Color, Color.RED,
        Color.BLUE, other, other.RED, Pair(1), Pair, pair, scale, tl.float32, tl.float16,
        tl.constexpr(1), b"1", int, "a".join, "b".join,
    ]  # fmt: skip
    digests = [digest(value) for value in values]
    assert None not in digests and len(set(digests)) == len(values)
    assert digests == [digest(value) for value in values]


def test_digests_do_not_depend_on_when_garbage_is_collected() -> None:
    threshold = gc.get_threshold()
    expected = [digest(Pair), digest(Color)]
    gc.set_threshold(1)
    try:
        digests = [[digest(Pair), digest(Color)] for _ in range(50)]
    finally:
        gc.set_threshold(*threshold)
    assert None not in expected
    assert digests == [expected] * 50


def test_unknown_objects_have_no_key(made: list[str]) -> None:
    class Doubling(NamedTuple):
        x: int

        @property
        def twice(self) -> int:
            return 2 * self.x

    deep: list[Any] = []
    deep.append(deep)
    for value in (Opaque(), Opaque, (1, Opaque()), {"a": Opaque()}, Doubling(1), deep):
        assert digest(value) is None


def test_functions_that_run_at_compile_time(monkeypatch) -> None:
    settings = types.ModuleType("settings")
    settings.steps = 4

    def make(default: int, inner: Any) -> Any:
        @tile.constexpr_function
        def count(x, step=default):
            return [x * step * y + settings.steps for y in inner]

        return count

    monkeypatch.setitem(globals(), "settings", settings)
    actual = [digest(make(1, (1,))), digest(make(2, (1,))), digest(make(1, (2,)))]
    settings.steps = 5
    actual.append(digest(make(1, (1,))))
    assert None not in actual and len(set(actual)) == 4
    settings.steps = Opaque()
    assert digest(make(1, (1,))) is None


@pytest.mark.parametrize(
    "code",
    [
        "from tests.runtime.test_kernel_cache import digest;"
        "print(digest(frozenset({'a', 'b', 'c', 'd', 'e'})))",
        "from tile.config import config;"
        "scope = config.scope(sanitize=frozenset({'a', 'b', 'c', 'd', 'e'}));"
        "scope.__enter__(); print(config.cache_key_settings)",
    ],
)
def test_sets_have_one_text_in_all_processes(code: str) -> None:
    actual = set()
    for seed in "1234":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        actual.add(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).stdout)
    assert len(actual) == 1 and len(actual.pop()) > 60


def test_the_store_is_where_the_settings_say(folder: Path) -> None:
    compiled()
    there = cache.current_cache()
    assert there is not None
    assert [one.title for one in there.entries()] == ["scale for nvptx:sm_80"]


def test_settings_have_one_text_in_all_processes() -> None:
    """Sets are not: their order follows the hashes of texts, which differ between processes."""
    code = "from tile.config import config; print(config.cache_key_settings)"
    spelt = set()
    for seed in "1234":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        spelt.add(subprocess.check_output(command, env=environment, text=True, timeout=60))
    assert len(spelt) == 1


@tile.jit
def stopping(x_ptr, n, B: tl.constexpr):
    breakpoint()
    tl.store(x_ptr + tl.arange(0, B), n)


def test_a_breakpoint_is_warned_of_by_each_process(made: list[str]) -> None:
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=r"`breakpoint\(\)` at .* is ignored"):
            compiled(stopping)
    assert made == ["stopping"] * 2
