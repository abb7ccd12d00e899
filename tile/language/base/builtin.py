"""Builtins: functions that a kernel calls and that emit IR.

A builtin is an ordinary function whose first parameter is the IR builder. `@builtin` hides that
parameter: a kernel calls `tl.load(pointer, mask)`, and the compiler calls
`load.emit(build, pointer, mask)`. A type checker reads the stub of `tile.language`. Arguments are
`Tensor`s for runtime values, or plain Python objects for compile-time values.

`tl` has every builtin of the modules of `tile.language` whose name in Python ends in no underscore.
The underscore is not part of a builtin's name in kernels.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tile.errors import CompilationError
from tile.pickling import PickledByName
from tile.tracebacks import public_function

if TYPE_CHECKING:  # not imported by a process whose kernels are all in the disk cache
    from tile.ir.builder import Builder
    from tile.ir.core import Function

P = ParamSpec("P")
R = TypeVar("R")


class Emitter(Protocol):
    """The `_semantic` of a Python function that the compiler calls for a kernel.

    The function passes it on to the builtins that it calls: `tl.exp(x, _semantic=_semantic)`.
    """

    def emit(self, function: Builtin[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Emit a call of a builtin at the insertion point, and return its result."""


SEMANTIC = "_semantic"
SEMANTIC_PARAMETER = inspect.Parameter(SEMANTIC, inspect.Parameter.KEYWORD_ONLY, default=None)


class Builtin(PickledByName, Generic[P, R]):
    """A function of the language, callable only while a kernel is compiled."""

    def __init__(self, function: Callable[Concatenate[Builder, P], R]) -> None:
        self.function = function
        self.name = function.__name__.rstrip("_")
        functools.update_wrapper(self, function)

    def __getattr__(self, name: str) -> Any:
        """Return `__signature__`, which has `_semantic` besides the parameters of kernels."""
        if name != "__signature__":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        parameters = [*self.signature.parameters.values(), SEMANTIC_PARAMETER]
        self.__signature__ = self.signature.replace(parameters=parameters)
        return self.__signature__

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature in kernels, computed on first access: a hundred would slow the import."""
        whole = inspect.signature(self.function)
        _, *parameters = whole.parameters.values()
        return whole.replace(parameters=parameters)

    def __get__(self, instance: object, owner: type | None = None) -> Builtin[P, R]:
        """Return the function itself; `help` shows signatures of objects with this method."""
        return self

    def emit(self, build: Builder, *args: P.args, **kwargs: P.kwargs) -> R:
        """Emit the operations of this function at the insertion point, and return its result.

        Raises `CompilationError` for wrong arguments and `TypeRuleError` for wrong types, both
        without a location.
        """
        try:
            return self.function(build, *args, **kwargs)
        except TypeError:
            self._check(args, kwargs)
            raise

    @public_function
    def __call__(self, *args: Any, _semantic: Emitter | None = None, **kwargs: Any) -> Any:
        """Emit the operations by the emitter `_semantic` of a function that the compiler calls.

        Raises `CompilationError` without one: a builtin can only be called inside a kernel.
        """
        if _semantic is not None:
            return _semantic.emit(self, args, kwargs)
        raise CompilationError(
            f"tl.{self.name} can only be called inside a kernel (a @tile.jit function)"
        )

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise `CompilationError` if the arguments do not bind to the parameters."""
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            parameters = self.signature.parameters
            hints = [suggestion(name, parameters) for name in kwargs if name not in parameters]
            raise CompilationError(
                f"tl.{self.name}: {error}{''.join(hints)}", notes=[f"it is {self.spelling}"]
            ) from None

    @property
    def spelling(self) -> str:
        """The name and parameters as text, without annotations."""
        plain = [p.replace(annotation=p.empty) for p in self.signature.parameters.values()]
        return f"tl.{self.name}{inspect.Signature(plain)}"

    def __repr__(self) -> str:
        return f"<tl.{self.name}>"


@dataclass(frozen=True)
class Bound:
    """A builtin bound to its first argument: the value of `x.sum` in a kernel."""

    builtin: Builtin[..., Any]
    receiver: Any

    @property
    def name(self) -> str:
        return self.builtin.name

    def emit(self, build: Builder, *args: Any, **kwargs: Any) -> Any:
        """Call the builtin with the receiver in front of the arguments."""
        return self.builtin.emit(build, self.receiver, *args, **kwargs)


class Callback(ABC):
    """A jitted function as an argument of a builtin, which can emit calls of it.

    The frontend creates these. `functions` are the functions compiled into the module so far.
    """

    name: str
    functions: Mapping[str, Function]

    @abstractmethod
    def emit(self, build: Builder, *args: Any) -> Any:
        """Emit a call of the function at the insertion point, and return its result."""


# The methods of values in a kernel, and of descriptors, by name.
MEMBERS: dict[str, Builtin[..., Any]] = {}
DESCRIPTOR_MEMBERS: dict[str, Builtin[..., Any]] = {}


def builtin(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
    """Declare a builtin of the language, a function whose first parameter is the builder."""
    return Builtin(function)


def member(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
    """Declare a builtin that is also a method of its first argument."""
    declared = Builtin(function)
    MEMBERS[declared.name] = declared
    return declared


def descriptor_member(
    name: str,
) -> Callable[[Callable[Concatenate[Builder, P], R]], Builtin[P, R]]:
    """Declare a builtin that is the method `name` of its first argument, a descriptor.

    Error messages use the function's own name.
    """

    def declare(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
        declared = Builtin(function)
        DESCRIPTOR_MEMBERS[name] = declared
        return declared

    return declare


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return the end of a message that suggests the names closest to `name`, or an empty string."""
    near = difflib.get_close_matches(name, list(candidates), n=3)
    return f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
