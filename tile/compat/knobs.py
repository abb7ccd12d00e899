"""`triton.knobs`: settings as attributes of groups, backed by Triton's environment variables.

A knob reads its variable until a program assigns it. An assignment also writes the variable, so
that processes started later see it; deleting the attribute restores the variable's rule. `EFFECTS`
says which knobs act on `tile`; the others are stored for programs that read them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from tile.cache.disk_cache import cache_folder
from tile.compat.hooks import Chain, CompilationListener, Listener, Single, connect
from tile.config import read_environment, write_environment
from tile.ir.types import Precision
from tile.triton_variables import triton_flag, triton_folder

__all__ = [
    "amd",
    "amd_knobs",
    "autotuning",
    "autotuning_knobs",
    "base_knobs",
    "build",
    "build_knobs",
    "cache",
    "cache_knobs",
    "compilation",
    "compilation_knobs",
    "language",
    "language_knobs",
    "nvidia",
    "nvidia_knobs",
    "proton",
    "proton_knobs",
    "redis",
    "redis_knobs",
    "refresh_knobs",
    "runtime",
    "runtime_knobs",
]

T = TypeVar("T")

EFFECTS = {
    "TRITON_INTERPRET": "kernels decorated while it is set run on the interpreter",
    "TRITON_CACHE_DIR": "the folder of the compilation cache",
    "TRITON_HOME": "the folder in which .triton has the cache, dumps and overrides, where these "
    "have no variable of their own",
    "TRITON_ALWAYS_COMPILE": "kernels are neither taken from the disk cache nor stored in it",
    "TRITON_PRINT_AUTOTUNING": "autotuners print their timings",
    "TRITON_CACHE_AUTOTUNING": "autotuners store their results on disk",
    "TRITON_F32_DEFAULT": "the `input_precision` of dots of float32 that state none",
    "TRITON_DEBUG": "kernels decorated while it is set are compiled with `debug`",
    "TRITON_DEFAULT_FP_FUSION": "the launch option `enable_fp_fusion` of launches that state none",
    "TRITON_FORCE_DISABLE_FP_FUSION": "as TRITON_DEFAULT_FP_FUSION=0; a launch that states True "
    "keeps it",
    "TRITON_KERNEL_DUMP": "each kernel's stages are written to a folder of its own in "
    "TRITON_DUMP_DIR: kernel.ttir (tile IR), .ttgir (thread IR), .llir (LLVM IR), .ptx, and "
    "kernel.txt, which says what was compiled",
    "TRITON_DUMP_DIR": "the folder of these; ~/.triton/dump by default",
    "TRITON_KERNEL_OVERRIDE": "files in TRITON_OVERRIDE_DIR that differ from the .ttir or the .ptx "
    "of a dump replace them; any other stage that differs raises an error",
    "TRITON_OVERRIDE_DIR": "the folder of these; ~/.triton/override by default",
    "TRITON_REPRODUCER_PATH": "the file for the IR before a pass that fails, and for its command",
    "MLIR_ENABLE_DUMP": "the IR is printed after each pass; the name of a kernel limits it to that",
    "MLIR_DUMP_PATH": "the file to which MLIR_ENABLE_DUMP writes in place of stderr",
    "MLIR_ENABLE_TIMING": "the time of each pass is printed",
    "LLVM_IR_ENABLE_DUMP": "the LLVM IR of each kernel is printed to stderr",
    "NVPTX_ENABLE_DUMP": "the PTX of each kernel is printed",
    "PTXAS_OPTIONS": "further options of ptxas",
    "DISABLE_PTXAS_OPT": "ptxas gets `--opt-level 0`",
    "TRITON_DUMP_PTXAS_LOG": "what ptxas reports is printed",
    "TRITON_PTXAS_PATH": "the ptxas that assembles kernels",
    "TRITON_LIBDEVICE_PATH": "the libdevice to which kernels are linked",
    "TRITON_FRONT_END_DEBUGGING": "tracebacks keep the frames of the compiler",
}


@dataclass(frozen=True)
class Knob(Generic[T]):
    """A setting of a group: an environment variable, how its text is read, and its default."""

    key: str
    read: Callable[[str], T]
    default: Callable[[], T]
    name: str = field(init=False, default="")

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __get__(self, group: base_knobs | None, owner: type) -> Any:
        if group is None:
            return self
        if self.name in vars(group):
            return vars(group)[self.name]
        text = read_environment(self.key)
        return self.default() if text is None else self.read(text)

    def __set__(self, group: base_knobs, value: T) -> None:
        vars(group)[self.name] = value
        if value is None or isinstance(value, bool | int | str):
            text = str(int(value)) if isinstance(value, bool) else value
            write_environment(self.key, None if text is None else str(text))

    def __delete__(self, group: base_knobs) -> None:
        vars(group).pop(self.name, None)


def _flag(key: str, default: bool = False) -> Knob[bool]:
    return Knob(key, triton_flag, lambda: default)


def _optional_flag(key: str) -> Knob[bool | None]:
    return Knob(key, triton_flag, lambda: None)


def _text(key: str, default: str | None = None) -> Knob[str | None]:
    return Knob(key, str, lambda: default)


def _number(key: str, default: int) -> Knob[int]:
    return Knob(key, int, lambda: default)


class base_knobs:
    """A group of knobs."""

    @property
    def knob_descriptors(self) -> dict[str, Knob[Any]]:
        """The knobs with a variable, by attribute."""
        return {name: knob for name, knob in vars(type(self)).items() if isinstance(knob, Knob)}

    @property
    def knobs(self) -> dict[str, Any]:
        """The values of the knobs with a variable, by attribute."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self) -> base_knobs:
        """Return a group with the same values."""
        return copy.copy(self)

    def reset(self) -> base_knobs:
        """Undo all assignments to knobs with a variable, and return the group."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo, at the end of the `with` block, what it assigns to the group."""
        before = dict(vars(self))
        keys = [knob.key for knob in self.knob_descriptors.values()]
        environment = {key: read_environment(key) for key in keys}
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
            for key, text in environment.items():
                write_environment(key, text)


class build_knobs(base_knobs):
    """The compiler of launchers, of which `tile` has none."""

    cc = _text("CC")
    cudacrt_path = _text("TRITON_CUDACRT_PATH")
    cudart_path = _text("TRITON_CUDART_PATH")
    impl: Any = None

    @property
    def backend_dirs(self) -> set[str]:
        """The folders of headers and libraries that are set."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    """The server of a remote cache, of which `tile` has none."""

    key_format = _text("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = _text("TRITON_REDIS_HOST", "localhost")
    port = _number("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    """Folders of caches and dumps."""

    home_dir = Knob("TRITON_HOME", str, lambda: str(Path.home()))
    dump_dir = Knob("TRITON_DUMP_DIR", str, lambda: triton_folder("dump"))
    override_dir = Knob("TRITON_OVERRIDE_DIR", str, lambda: triton_folder("override"))
    dir = Knob("TRITON_CACHE_DIR", str, lambda: str(cache_folder()))
    manager_class: Any = None
    remote_manager_class: Any = None

    def get_triton_dir(self, dirname: str) -> str:
        """Return a folder under the one of `home_dir`."""
        return str(Path(self.home_dir) / ".triton" / dirname)


class compilation_knobs(base_knobs):
    """Compilation; `listener` is called after each."""

    override = _flag("TRITON_KERNEL_OVERRIDE")
    dump_ir = _flag("TRITON_KERNEL_DUMP")
    dump_ir_extract_di_local_variables = _flag("LLVM_EXTRACT_DI_LOCAL_VARIABLES")
    store_binary_only = _flag("TRITON_STORE_BINARY_ONLY")
    always_compile = _flag("TRITON_ALWAYS_COMPILE")
    use_ir_loc = _text("USE_IR_LOC")
    enable_asan = _flag("TRITON_ENABLE_ASAN")
    disable_line_info = _flag("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = _flag("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = _flag("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode = _text("TRITON_INSTRUMENTATION_MODE", "")
    listener = CompilationListener()


class autotuning_knobs(base_knobs):
    """Autotuning; `listener` is called after each choice of a configuration."""

    cache = _flag("TRITON_CACHE_AUTOTUNING")
    print = _flag("TRITON_PRINT_AUTOTUNING")
    listener = Listener()


class runtime_knobs(base_knobs):
    """Launches and their hooks.

    launch_enter_hook, launch_exit_hook: called around each launch with a `LazyDict` of metadata.
    jit_cache_hook: called before a kernel is compiled; a true result skips compiling and launching.
    jit_post_compile_hook: called after a kernel is compiled.
    """

    interpret = _flag("TRITON_INTERPRET")
    debug = _flag("TRITON_DEBUG")
    override_arch = _text("TRITON_OVERRIDE_ARCH")
    sanitize_overflow = _flag("TRITON_SANITIZE_OVERFLOW", True)

    launch_enter_hook = Chain()
    launch_exit_hook = Chain(backward=True)
    kernel_load_start_hook = Chain()
    kernel_load_end_hook = Chain(backward=True)
    kernel_unload_hook = Chain(backward=True)
    jit_cache_hook = Single()
    jit_post_compile_hook = Single()
    add_stages_inspection_hook: Any = None

    @contextmanager
    def scope(self) -> Iterator[None]:
        with super().scope():
            yield
        connect(self)


class language_knobs(base_knobs):
    """Defaults of launch options."""

    fp32_default = _text("TRITON_F32_DEFAULT")
    default_fp_fusion = _flag("TRITON_DEFAULT_FP_FUSION", True)
    force_disable_fp_fusion = _flag("TRITON_FORCE_DISABLE_FP_FUSION")


class nvidia_knobs(base_knobs):
    """The tools of the NVIDIA backend."""

    cuobjdump = _text("TRITON_CUOBJDUMP_PATH")
    nvdisasm = _text("TRITON_NVDISASM_PATH")
    ptxas = _text("TRITON_PTXAS_PATH")
    ptxas_blackwell = _text("TRITON_PTXAS_BLACKWELL_PATH")
    dump_nvptx = _flag("NVPTX_ENABLE_DUMP")
    disable_ptxas_opt = _flag("DISABLE_PTXAS_OPT")
    ptxas_options = _text("PTXAS_OPTIONS")
    mock_ptx_version = _text("TRITON_MOCK_PTX_VERSION")
    dump_ptxas_log = _flag("TRITON_DUMP_PTXAS_LOG")
    libdevice_path = _text("TRITON_LIBDEVICE_PATH")
    libcuda_path = _text("TRITON_LIBCUDA_PATH")


class amd_knobs(base_knobs):
    """The AMD backend, which `tile` does not have."""

    use_buffer_ops = _flag("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = _flag("AMDGCN_USE_BUFFER_ATOMICS", True)
    dump_amdgcn = _flag("AMDGCN_ENABLE_DUMP")
    libhip_path = _text("TRITON_LIBHIP_PATH")
    use_block_pingpong = _optional_flag("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = _optional_flag("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = _optional_flag("TRITON_HIP_USE_ASYNC_COPY")
    scalarize_packed_fops = _flag("AMDGCN_SCALARIZE_PACKED_FOPS")


class proton_knobs(base_knobs):
    """The profiler Proton, which `tile` does not have."""

    disable = _flag("TRITON_PROTON_DISABLE")
    profile_buffer_size = _number("TRITON_PROFILE_BUFFER_SIZE", 64 << 20)
    enable_nvtx = _flag("TRITON_ENABLE_NVTX", True)


build = build_knobs()
redis = redis_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()

GROUPS: tuple[base_knobs, ...] = (
    *(build, redis, cache, compilation, autotuning),
    *(runtime, language, nvidia, amd, proton),
)


def launch_defaults() -> dict[str, Any]:
    """Return the defaults of launch options that differ from those under `tile`'s names."""
    return {
        "default_dot_input_precision": language.fp32_default or Precision.TF32.value,
        "enable_fp_fusion": language.default_fp_fusion and not language.force_disable_fp_fusion,
    }


def refresh_knobs() -> None:
    """Undo the assignments to all knobs with a variable."""
    for group in GROUPS:
        group.reset()
