"""Functions that a kernel calls and that build IR.

A builtin is an ordinary function whose first parameter is the IR builder. `@builtin` hides that
parameter: a kernel sees `tl.load(pointer, mask)`, the compiler calls
`load.emit(build, pointer, mask)`. A type checker reads the stub of `tile.language`. Arguments are
`Tensor`s, for values known when the kernel runs, or plain Python objects, for values known when it
is compiled.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from tile.by_name import ByName
from tile.errors import CompilationError
from tile.tracebacks import entry

if TYPE_CHECKING:  # what a process that finds its kernels on disk does not import
    from tile.ir.builder import Builder
    from tile.ir.core import Function

P = ParamSpec("P")
R = TypeVar("R")


class Builtin(ByName, Generic[P, R]):
    """A function of the language, callable only while a kernel is compiled."""

    def __init__(self, function: Callable[Concatenate[Builder, P], R]) -> None:
        self.function = function
        self.name = function.__name__.rstrip("_")
        functools.update_wrapper(self, function)

    def __getattr__(self, name: str) -> Any:
        """`__signature__`, made when somebody first asks: a hundred of them cost an import."""
        if name != "__signature__":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        whole = inspect.signature(self.function)
        _, *parameters = whole.parameters.values()
        self.__signature__ = whole.replace(parameters=parameters)
        return self.__signature__

    def __get__(self, instance: object, owner: type | None = None) -> Builtin[P, R]:
        """The function itself: by this method `help` knows a function and shows its signature."""
        return self

    def emit(self, build: Builder, *args: P.args, **kwargs: P.kwargs) -> R:
        """Insert the operations of this function where `build` stands, and give its result.

        Raises `CompilationError` where the arguments do not fit, and `TypeRuleError` where their
        types do not; neither has a location yet.
        """
        try:
            return self.function(build, *args, **kwargs)
        except TypeError:
            self._check(args, kwargs)
            raise

    @entry
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: outside a kernel there is nothing to build."""
        raise CompilationError(
            f"tl.{self.name} can only be called inside a kernel (a @tile.jit function)"
        )

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise `CompilationError` if the arguments do not bind to the parameters."""
        try:
            self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            known = self.__signature__.parameters
            hints = [suggestion(name, known) for name in kwargs if name not in known]
            raise CompilationError(
                f"tl.{self.name}: {error}{''.join(hints)}", notes=[f"it is {self.spelling}"]
            ) from None

    @property
    def spelling(self) -> str:
        """The name and parameters, as a reader would write them."""
        plain = [p.replace(annotation=p.empty) for p in self.__signature__.parameters.values()]
        return f"tl.{self.name}{inspect.Signature(plain)}"

    def __repr__(self) -> str:
        return f"<tl.{self.name}>"


@dataclass(frozen=True)
class Bound:
    """A builtin with its first argument given: what `x.sum` is in a kernel."""

    builtin: Builtin[..., Any]
    receiver: Any

    @property
    def name(self) -> str:
        return self.builtin.name

    def emit(self, build: Builder, *args: Any, **kwargs: Any) -> Any:
        """Call the builtin with the receiver in front of the arguments."""
        return self.builtin.emit(build, self.receiver, *args, **kwargs)


class Callback(ABC):
    """A jitted function as an argument of a builtin, which may call it where it builds.

    The frontend makes these; `functions` are the functions of the module so far.
    """

    name: str
    functions: Mapping[str, Function]

    @abstractmethod
    def emit(self, build: Builder, *args: Any) -> Any:
        """Call the function where `build` stands, and give its result."""


# What can be written after the dot of a value in a kernel, by name; and of a descriptor.
MEMBERS: dict[str, Builtin[..., Any]] = {}
DESCRIPTOR_MEMBERS: dict[str, Builtin[..., Any]] = {}


def builtin(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
    """Make a function whose first parameter is the builder a function of the language."""
    return Builtin(function)


def member(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
    """Like `builtin`, for a function that is a method of its first argument as well."""
    made = Builtin(function)
    MEMBERS[made.name] = made
    return made


def descriptor_member(
    name: str,
) -> Callable[[Callable[Concatenate[Builder, P], R]], Builtin[P, R]]:
    """Like `builtin`, for a function that is the method `name` of a descriptor, its first argument.

    Errors call it by the function's own name.
    """

    def declare(function: Callable[Concatenate[Builder, P], R]) -> Builtin[P, R]:
        made = Builtin(function)
        DESCRIPTOR_MEMBERS[name] = made
        return made

    return declare


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence end that offers the names nearest to a misspelt one, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
