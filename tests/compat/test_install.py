"""`install_as_triton`: modules, versions, and their removal."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types

import numpy as np
import pytest

import tile
import tile.compat
import tile.language as tl
from tile.compat.finder import TritonFinder
from tile.compat.modules import MODULES
from tile.compat.torch_kernels import REPLACEMENTS, original_of
from tile.errors import ArgumentValueError, TritonLoadedError


@pytest.mark.parametrize("version", tile.compat.VERSIONS)
def test_version(version) -> None:
    with tile.compat.install_as_triton(version):
        import triton

        assert triton.__version__ == version == importlib.metadata.version("triton")


def test_unknown_version() -> None:
    with pytest.raises(ArgumentValueError, match=r"one of the versions 3\.6\.0.*not '2\.0'"):
        tile.compat.install_as_triton("2.0")
    assert tile.compat.installed() is None


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_imported_by_its_name(triton, name) -> None:
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert sys.modules[name] is module
    own = [public for public in dir(module) if not public.startswith("__")]
    for public in own:
        getattr(module, public)


@pytest.mark.parametrize("name", ["triton", "triton.knobs", "triton.language", "triton._utils"])
def test_imports_of_the_sources_are_no_names(triton, name) -> None:
    assert not {"Any", "annotations", "Path", "UnsupportedError"} & set(
        dir(importlib.import_module(name))
    )


def test_uninstall_removes_everything() -> None:
    before = dict(os.environ)
    installation = tile.compat.install_as_triton()
    import triton.language.core
    import triton.runtime.jit

    assert os.environ["TILE_TRITON"] == "3.8.0"
    installation.uninstall()
    installation.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "triton"]
    assert importlib.util.find_spec("triton") is None
    assert dict(os.environ) == before
    assert triton.jit(lambda: None)  # objects that a program holds stay usable


def test_installing_twice_is_once(triton) -> None:
    finders = list(sys.meta_path)
    assert tile.compat.install_as_triton().version == "3.8.0"
    assert sys.meta_path == finders
    with pytest.raises(ArgumentValueError, match=r"installed as Triton 3\.8\.0; uninstall"):
        tile.compat.install_as_triton("3.6.0")


def test_a_loaded_triton_is_refused(monkeypatch) -> None:
    real = types.ModuleType("triton")
    real.__file__ = "/somewhere/triton/__init__.py"
    monkeypatch.setitem(sys.modules, "triton", real)
    with pytest.raises(TritonLoadedError, match="is loaded, from /somewhere/triton"):
        tile.compat.install_as_triton()
    with pytest.raises(ImportError):
        tile.compat.install_as_triton()


def test_objects_are_those_of_tile(triton) -> None:
    import triton.language as tl
    from triton.compiler.errors import CompilationError
    from triton.runtime.autotuner import Autotuner, Config
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tile.language

    assert triton.JITFunction is tile.JITFunction
    assert Autotuner is tile.Autotuner and issubclass(Config, tile.Config)
    assert TensorDescriptor is tile.TensorDescriptor
    assert CompilationError is tile.errors.CompilationError is triton.CompilationError
    assert tl.load is tile.language.load is triton.language.core.load
    assert tl.constexpr is tile.language.constexpr


def test_the_driver_is_a_module_and_an_object(triton) -> None:
    import triton.runtime.driver
    from triton.runtime import driver
    from triton.runtime.driver import driver as same

    assert driver is same is triton.runtime.driver
    assert isinstance(sys.modules["triton.runtime.driver"], types.ModuleType)
    assert driver.active.get_current_target().backend == "cpu"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("triton.experimental.gluon", "Gluon programs choose Triton's layouts"),
        ("triton.profiler", "Proton"),
        ("triton._C.libtriton", "MLIR"),
        ("triton.tools.link", "use `tile link`"),
        ("triton.nothing", "No module named 'triton.nothing'"),
    ],
)
def test_absent_modules_say_why(triton, module, words) -> None:
    with pytest.raises(ModuleNotFoundError, match=words):
        importlib.import_module(module)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("triton", "experimental", "Gluon"),
        ("triton.testing", "cuda_memcheck", "use `tile check`"),
        ("triton.runtime.interpreter", "InterpreterBuilder", "the interpreter of `tile` has other"),
        ("triton.tools", "LinearLayout", "docs/layouts.md"),
        ("triton", "nothing", "it shows what `tile` has of Triton 3.8.0"),
    ],
)
def test_absent_names_say_why(triton, module, name, words) -> None:
    with pytest.raises(
        AttributeError, match=f"module '{module}' has no attribute '{name}'"
    ) as error:
        getattr(importlib.import_module(module), name)
    assert words in str(error.value)
    assert not hasattr(importlib.import_module(module), name)


def test_import_of_tile_loads_none_of_it() -> None:
    import subprocess

    code = "import sys, tile; sys.exit(any(name.startswith('tile.compat') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


NAMES = [(module, path) for module, paths in REPLACEMENTS.items() for path in paths]


@pytest.fixture
def compiling_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers compile TorchInductor's kernels, whether or not PyTorch is there."""
    config = types.SimpleNamespace(compile_threads=2)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)


@pytest.mark.usefixtures("compiling_workers")
@pytest.mark.parametrize(("module_name", "path"), NAMES)
def test_the_name_of_pytorch_is_replaced_and_restored(monkeypatch, module_name, path) -> None:
    owner = module = types.ModuleType(module_name)
    *classes, name = path.split(".")
    for one in classes:
        setattr(owner, one, type(one, (), {}))
        owner = getattr(owner, one)
    setattr(owner, name, original := lambda kernel, kwargs, descriptors: "original")
    monkeypatch.setitem(sys.modules, module_name, module)
    with tile.compat.install_as_triton():
        replaced = vars(owner)[name]
        assert replaced is not original and original_of(replaced) is original
        if name.startswith("identify"):
            assert replaced(None, {}, {"a": 1}) == "original"
        tile.compat.install_as_triton()
        assert vars(owner)[name] is replaced
    assert vars(owner)[name] is original


@pytest.mark.usefixtures("compiling_workers")
@pytest.mark.parametrize(("module_name", "path"), NAMES)
def test_the_module_of_pytorch_is_loaded_with_its_name_replaced(
    tmp_path, module_name, path
) -> None:
    *classes, name = path.split(".")
    lines = [*(f"class {one}:" for one in classes), f"def {name}(*arguments):", "return 'original'"]
    text = "\n".join("    " * depth + line for depth, line in enumerate(lines))
    (tmp_path / f"{module_name.rpartition('.')[2]}.py").write_text(f"{text}\n")
    with tile.compat.install_as_triton():
        finder = next(one for one in sys.meta_path if isinstance(one, TritonFinder))
        spec = finder.find_spec(module_name, [str(tmp_path)])
        owner = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for one in classes:
            owner = getattr(owner, one)
        assert original_of(vars(owner)[name])() == "original"
        assert finder.find_spec(module_name, [str(tmp_path / "nothing")]) is None


@pytest.mark.parametrize(("module_name", "path"), NAMES)
def test_a_module_of_pytorch_without_the_name_stays(monkeypatch, module_name, path) -> None:
    module = types.ModuleType(module_name)
    before = dict(vars(module))
    monkeypatch.setitem(sys.modules, module_name, module)
    with tile.compat.install_as_triton():
        assert vars(module) == before


def test_the_class_of_constants_has_the_name_of_triton() -> None:
    """Sources that tools generate for Triton name it so, and import no other package."""
    before = tl.constexpr.__module__

    def kernel(x, value):
        size: tl.constexpr = constexpr(4)
        tl.store(x + tl.arange(0, size), value)

    with tile.compat.install_as_triton():
        import triton
        from triton.language import constexpr

        assert tl.constexpr.__module__ == "triton.language.core"
        assert triton.language.core.constexpr is tl.constexpr
        x = np.zeros(4, np.float32)
        triton.jit(kernel)[1,](x, 2.0)
        assert x.tolist() == [2] * 4
    assert tl.constexpr.__module__ == before
