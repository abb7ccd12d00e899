"""Settings: every environment variable that `tile` reads, with its type, default and description.

Nothing else in the package reads the environment. Variables are read at each access, so a test or a
user may change them at any time; `with config.scope(backend="interp"):` overrides some of them for
the current thread or task only.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from tile.checks import ALWAYS, parse_checks
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.setting_texts import flag, names, number_of_bytes, one_of, order, positive
from tile.triton_variables import VARIABLES, TritonVariable, first_set

T = TypeVar("T")

_NOTHING: tuple[str, ...] = ()
_UNREAD: Any = object()


class Origin(Enum):
    """The origin of the value of a setting."""

    SCOPE = "a `with` block"
    ENVIRONMENT = "the environment"
    DEFAULT = "the default"


class CompileEffect(Enum):
    """The effect of a variable on compilation; see `Config.cache_key_settings`."""

    DECIDES = "it may change the compiled code, so it is part of cache keys"
    WATCHES = "it prints, dumps or verifies IR, so the compiler has to run"
    NONE = "it does not concern the compiler"


DECIDES, WATCHES, NONE = CompileEffect


def read_environment(name: str) -> str | None:
    """Return a variable of other packages, which is not a setting; None if it is not set."""
    return os.environ.get(name)


def write_environment(name: str, text: str | None) -> None:
    """Set a variable for this process and those that it starts; None removes it."""
    if text is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = text


@dataclass(frozen=True)
class Variable(Generic[T]):
    """One environment variable, as a descriptor.

    Its value is the override if there is one, else the environment's, else the default. `effect`
    defaults to the safe choice: kernels are compiled again if the variable differs. `parse` may be
    left out for flags and text, and `name` if it is `TILE_` and the attribute's name. Where it is
    not set, a variable of Triton may decide (`tile.triton_variables`).
    """

    default: T
    doc: str
    effect: CompileEffect = DECIDES
    parse: Callable[[str], T] | None = None
    name: str = ""
    triton: tuple[TritonVariable, ...] = field(init=False, default=())
    _key: object = field(init=False, repr=False, compare=False)
    _parsed: dict[object, T] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __set_name__(self, owner: type, attribute: str) -> None:
        name = self.name or f"TILE_{attribute.upper()}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "triton", VARIABLES.get(attribute, ()))
        object.__setattr__(self, "_key", os.environ.encodekey(name))

    def __get__(self, config: Config | None, owner: type) -> T:
        overrides = None if config is None else config.own.get(None)
        if overrides is not None and self.name in overrides:
            value: T = overrides[self.name]
            return value
        # Every launch reads settings, and `os.environ.get` takes a microsecond for an unset name.
        # A lookup in the mapping behind it (encoded names to encoded texts) is much cheaper.
        texts = getattr(os.environ, "_data", None)
        if texts is None:
            text = os.environ.get(self.name)
            if text is None:
                return self._of_triton() if self.triton else self.default
            return self._read(text)
        encoded = texts.get(self._key)
        if encoded is None:
            return self._of_triton() if self.triton else self.default
        parsed = self._parsed.get(encoded, _UNREAD)
        if parsed is _UNREAD:
            parsed = self._parsed[encoded] = self._read(os.environ[self.name])
        return parsed  # type: ignore[no-any-return]

    def _of_triton(self) -> T:
        variable = first_set(self.triton)
        if variable is None:
            return self.default
        value: T = variable.read(os.environ[variable.name])
        return value

    def origin(self, config: Config) -> Origin:
        """Return the origin of the current value."""
        overrides = config.own.get(None)
        if overrides is not None and self.name in overrides:
            return Origin.SCOPE
        texts = getattr(os.environ, "_data", None)  # as in `__get__`
        unset = self.name not in os.environ if texts is None else self._key not in texts
        if unset and first_set(self.triton) is not None:
            return Origin.ENVIRONMENT
        return Origin.DEFAULT if unset else Origin.ENVIRONMENT

    def text_reader(self) -> Callable[[], object]:
        """Return a function whose results are equal as long as the environment is unchanged.

        The launch fast path compares these, which takes a tenth of the time of reading the setting.
        """
        texts = getattr(os.environ, "_data", None)
        if texts is None:
            return functools.partial(os.environ.get, self.name)
        return functools.partial(texts.get, self._key)

    def _read(self, text: str) -> T:
        parse: Callable[[str], Any] = flag if isinstance(self.default, bool) else str
        try:
            return (self.parse or parse)(text)
        except ValueError as error:
            raise ArgumentValueError(
                f"environment variable {self.name}={text!r} cannot be read: {error}",
                notes=[self.doc],
            ) from error


class Config:
    """The current settings, one attribute for each variable."""

    backend = Variable("", "backend to run on: interp, nvptx or opencl", NONE)
    cache = Variable(
        True,
        "cache compiled kernels on disk for other processes (0: neither store nor look up)",
        NONE,
    )
    cache_dir = Variable("", "folder of the disk cache (default: the system's cache folder)", NONE)
    cache_limit = Variable(
        1 << 30,
        "most bytes of the disk cache, as in 500M or 2G; the least recently used entries go first",
        NONE,
        parse=number_of_bytes,
    )
    chunk_bytes = Variable(
        1 << 21,
        "bytes of one tile value over a batch of programs (interp)",
        NONE,
        parse=positive,
        name="TILE_INTERP_CHUNK",
    )
    interp_order = Variable(
        None,
        "order in which the programs of a grid start: reverse, or the seed of a random order "
        "(interp; default: ascending)",
        NONE,
        parse=order,
    )
    interp_level = Variable(
        "tile",
        "level at which the interpreter runs: tile, thread (the SIMT simulator), or steps "
        "(statement by statement, for a debugger)",
        parse=one_of("tile", "thread", "steps"),
    )
    interp_target = Variable(
        "generic",
        "target that TILE_INTERP_LEVEL=thread compiles for, such as generic, mma or wgmma",
    )
    interp_memory = Variable(
        "arguments",
        "memory that addresses in integers reach: arguments, the arrays of the launch, or process, "
        "any memory of the process (interp)",
        NONE,
        parse=one_of("arguments", "process"),
    )
    interp_races = Variable(
        False,
        "also check for global-memory races between threads of one program (interp, level thread)",
    )
    # a cached kernel records the libdevice that it was linked to
    cuda_path = Variable(
        "",
        "root folder of a CUDA toolkit, to find libdevice and ptxas that no wheel brings",
        NONE,
        name="CUDA_PATH",
    )
    cuda_home = Variable(
        "", "the same as CUDA_PATH, which takes precedence", NONE, name="CUDA_HOME"
    )
    libdevice = Variable("", "path of libdevice.10.bc (default: that of a wheel or a toolkit)")
    ptxas = Variable("", "path of ptxas (default: that of a wheel or a toolkit)", NONE)
    # part of the keys of cubins
    ptxas_options = Variable("", "further options of ptxas, such as --opt-level 0", NONE)
    print_ptxas = Variable(
        False, "print what ptxas reports of each kernel: registers, spills, memory", NONE
    )
    python_breakpoint = Variable(
        "", "as for Python: 0 makes kernels ignore `breakpoint()`", NONE, name="PYTHONBREAKPOINT"
    )
    # it concerns runs, and the interpreter's code is not cached
    sanitize = Variable(
        ALWAYS,
        "checks of the interpreter: all, none, or some of bounds, race, undef, overflow, assume, "
        "deadlock",
        NONE,
        parse=parse_checks,
    )
    opencl_device = Variable(
        "",
        "OpenCL device to run on: its index, or part of its name (default: a GPU, else a CPU)",
        NONE,
    )
    print_after = Variable(
        _NOTHING, "passes after which the IR is printed to stderr, or `all`", WATCHES, parse=names
    )
    print_kernel = Variable(
        "", "the kernel for which TILE_PRINT_AFTER prints (default: each)", NONE
    )
    print_file = Variable("", "a file to which TILE_PRINT_AFTER writes in place of stderr", NONE)
    print_llvm = Variable(False, "print the LLVM IR of each kernel to stderr", NONE)
    print_ptx = Variable(False, "print the PTX of each kernel", NONE)
    dump_stages = Variable(
        "",
        "folder for the stages of each kernel: in a subfolder of its own, kernel.ttir (tile IR), "
        ".ttgir (thread IR), .llir (LLVM IR) and .ptx",
        NONE,
    )
    override_stages = Variable(
        "",
        "folder of files that replace stages (.ttir and .ptx), named as in TILE_DUMP_STAGES",
        NONE,
    )
    reproducer = Variable(
        "", "a file for the IR before a pass that fails, with the command that runs the pass", NONE
    )
    dump = Variable(
        "",
        "folder for IR dumps: one subfolder for each compiled kernel, one file after every pass",
        WATCHES,
    )
    verify = Variable(
        False,
        "verify the IR after every pass, not only before the first and after the last",
        WATCHES,
    )
    timings = Variable(False, "print the time that each pass took to stderr", WATCHES)
    full_traceback = Variable(False, "keep the frames of this package in tracebacks", NONE)
    print_autotuning = Variable(
        False,
        "print the timings of each autotuning run, and the skipped configurations, to stderr",
        NONE,
    )
    print_compiles = Variable(
        False, "print each compilation of a kernel, and what differs from earlier ones", NONE
    )
    cache_autotuning = Variable(
        False, "store the results of all autotuners on disk, as with `cache_results=True`", NONE
    )
    triton = Variable(
        "",
        "version of Triton that `import triton` shows, in programs that `tile triton` runs and in "
        "tests: 1 or such as 3.8.0",
        NONE,
    )

    def __init__(self) -> None:
        self.own: ContextVar[dict[str, Any]] = ContextVar("tile_config")

    @property
    def overrides(self) -> dict[str, Any]:
        """Values by variable name that `scope` overrides here."""
        return self.own.get({})

    @classmethod
    def variables(cls) -> dict[str, Variable[Any]]:
        """The variables by attribute name."""
        return {name: v for name, v in vars(cls).items() if isinstance(v, Variable)}

    def origin(self, attribute: str) -> Origin:
        """Return the origin of a setting's current value."""
        variable: Variable[Any] = vars(Config)[attribute]
        return variable.origin(self)

    @property
    def observes_compiler(self) -> bool:
        """True if a setting observes the compiler, which then has to run despite the cache."""
        return any(value != v.default for v, value in self._with(CompileEffect.WATCHES))

    @property
    def observes_stages(self) -> bool:
        """True if stages of compiled kernels are written, printed or replaced."""
        return bool(self.dump_stages or self.override_stages or self.print_llvm or self.print_ptx)

    @property
    def cache_key_settings(self) -> str:
        """The settings that may change compiled code, as text that is equal in all processes.

        A set's own text lists its elements in an order that differs from process to process.
        """
        settings = [(v.name, value) for v, value in self._with(CompileEffect.DECIDES)]
        return " ".join(
            f"{name}={sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)}"
            for name, value in settings
        )

    def _with(self, effect: CompileEffect) -> Iterator[tuple[Variable[Any], Any]]:
        for attribute, variable in self.variables().items():
            if variable.effect is effect:
                yield variable, getattr(self, attribute)

    @contextmanager
    def scope(self, **values: Any) -> Iterator[None]:
        """Override settings, by attribute name, inside the `with` block."""
        variables = self.variables()
        unknown = sorted(set(values) - set(variables))
        if unknown:
            raise ArgumentTypeError(
                f"no setting named {unknown[0]!r}; there are {', '.join(variables)}"
            )
        renamed = {variables[name].name: value for name, value in values.items()}
        token = self.own.set({**self.overrides, **renamed})
        try:
            yield
        finally:
            self.own.reset(token)


config = Config()
