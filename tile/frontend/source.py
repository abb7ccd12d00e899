"""What the frontend knows of a jitted Python function: its parameters, its text, its AST."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
import tokenize
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tile.brief import brief
from tile.by_name import ByName
from tile.errors import ArgumentTypeError, CompilationError, Loc

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One parameter of a jitted function; `default` is `REQUIRED` where it has none."""

    name: str
    annotation: Any
    default: Any
    is_constexpr: bool
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    is_const: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a function with its AST.

    `shift` is what to add to a line number of the AST for one of the file; `lines` are the file's,
    from line 1 + `shift` on.
    """

    file: str
    text: str
    node: ast.FunctionDef
    shift: int
    lines: tuple[str, ...]
    assigned: dict[ast.AST, dict[str, ast.Name]] = field(default_factory=dict)

    @property
    def first_line(self) -> int:
        return self.node.lineno + self.shift

    def loc(self, node: ast.stmt | ast.expr | ast.keyword | ast.arg, function: str) -> Loc:
        """The place of a node; of one that spans lines, its first line."""
        line = self.lines[node.lineno - 1]
        column, end = node.col_offset, node.end_col_offset or 0
        if not line.isascii():  # the AST counts bytes
            raw = line.encode()
            column, end = len(raw[:column].decode()), len(raw[:end].decode(errors="ignore"))
        if node.end_lineno != node.lineno:
            end = len(line.rstrip())
        return Loc(self.file, node.lineno + self.shift, column, end, function)

    def assigned_in(self, node: ast.For | ast.While | ast.FunctionDef) -> dict[str, ast.Name]:
        """The names that a loop or function assigns anywhere inside, each with its first place."""
        names = self.assigned.get(node)
        if names is None:
            names = self.assigned[node] = {}
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    first = names.setdefault(inner.id, inner)
                    if (inner.lineno, inner.col_offset) < (first.lineno, first.col_offset):
                        names[inner.id] = inner
        return names


class DeviceFunction(ByName):
    """A Python function to be compiled; a kernel, or what a kernel calls.

    `noinline` asks that calls of it stay calls. Raises `ArgumentTypeError` for what is no plain
    function; its source is read when it is first asked for, and refused then if it cannot be.
    """

    def __init__(self, fn: Callable[..., Any], *, noinline: bool = False) -> None:
        if not isinstance(fn, types.FunctionType):
            raise ArgumentTypeError(_not_a_function(fn))
        self.fn: types.FunctionType = fn
        self.name: str = fn.__name__
        self.noinline = noinline
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    if not TYPE_CHECKING:  # which would take any attribute for one

        def __getattr__(self, name: str) -> Any:
            """`__signature__`, made when a tool first asks."""
            if name != "__signature__":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__signature__ = inspect.signature(self.fn)
            return self.__signature__

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order. Raises `CompilationError` for `*args` and `**kwargs`."""
        return tuple(map(self._parameter, _signature(self.fn).parameters.values()))

    def _parameter(self, parameter: inspect.Parameter) -> Parameter:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise CompilationError(
                f"`{stars}{parameter.name}` is not supported: a compiled function has a fixed "
                "number of parameters; pass a tuple as one argument",
                loc=self._place_of(parameter.name),
                notes=_wrapped(self.fn),
            )
        return Parameter(
            parameter.name,
            parameter.annotation,
            parameter.default,
            is_constexpr_annotation(parameter.annotation),
            parameter.kind,
            is_const_annotation(parameter.annotation),
        )

    def _place_of(self, parameter: str) -> Loc:
        arguments = self.source.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
        return self.source.loc(next(a for a in every if a.arg == parameter), self.name)

    @cached_property
    def source(self) -> Source:
        """The function's text and AST. Raises `CompilationError` if there is none to compile."""
        return read_source(self.fn)

    @cached_property
    def loc(self) -> Loc:
        """The place of the function's name in its definition."""
        node = self.source.node
        line = self.source.lines[node.lineno - 1]
        column = line.find(node.name, line.find("def") + 3)
        return Loc(
            self.source.file, self.source.first_line, column, column + len(node.name), self.name
        )

    def outside(self, name: str) -> tuple[bool, Any]:
        """Whether a name exists around the function, and its value whatever that is."""
        fn = self.fn
        free = fn.__code__.co_freevars
        if name in free and fn.__closure__ is not None:
            try:
                return True, fn.__closure__[free.index(name)].cell_contents
            except ValueError:
                return False, None
        if name in fn.__globals__:
            return True, fn.__globals__[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"


def is_constexpr_annotation(annotation: Any) -> bool:
    """Whether a parameter's annotation is `tl.constexpr`, the class or its name as text."""
    if isinstance(annotation, str):
        return annotation.strip("\"' ").rpartition(".")[2] == "constexpr"
    return isinstance(annotation, type) and annotation.__name__ == "constexpr"


def is_const_annotation(annotation: Any) -> bool:
    """Return True for `tl.const`, the class or its name, and for text such as `const *fp32`."""
    if isinstance(annotation, str):
        text = annotation.strip("\"' ")
        return text.rpartition(".")[2] == "const" or text.startswith(("const ", "*k"))
    return isinstance(annotation, type) and annotation.__name__ == "const"


def read_source(fn: types.FunctionType) -> Source:
    """The source of a function, with its AST. Raises `CompilationError` where it cannot be used."""
    _refuse_kind(fn)
    try:
        lines, first = _source_lines(fn)
        text = "".join(lines)
        tree, added = _parse(text)
    except (
        OSError,
        SyntaxError,
        IndexError,
        ValueError,
        RecursionError,
        MemoryError,
        tokenize.TokenError,
    ) as error:
        raise _unreadable(fn, str(error)) from error
    node = tree.body[0]
    if added:
        assert isinstance(node, ast.If)
        node = node.body[0]
    if not isinstance(node, ast.FunctionDef) or not _matches(node, fn.__code__):
        raise _unreadable(fn, "the file has changed since it was imported")
    file = fn.__code__.co_filename
    shown = ("if 1:\n",) * added + tuple(lines)
    return Source(file, textwrap.dedent(text), node, first - 1 - added, shown)


def _source_lines(fn: types.FunctionType) -> tuple[list[str], int]:
    """The lines of a definition and the number of the first, as `inspect.getsourcelines` has them.

    That one first looks for the function's module among all that are loaded, by their files' real
    paths: with PyTorch they are thousands, and it takes longer than finding a kernel on disk. The
    function itself knows its module's globals, by which lines of archives and notebooks are found.
    Raises `OSError` where there are none.
    """
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if not 0 < code.co_firstlineno <= len(lines):
        raise OSError("could not get source code" if not lines else "lineno is out of bounds")
    return inspect.getblock(lines[code.co_firstlineno - 1 :]), code.co_firstlineno


def _parse(text: str) -> tuple[ast.Module, int]:
    """The AST of a definition, and how many lines were put in front of it.

    An indented definition gets a header rather than losing its indentation: so columns stay those
    of the file, and text in multi-line strings is kept.
    """
    if text[:1] in " \t":
        return ast.parse("if 1:\n" + text), 1
    return ast.parse(text), 0


def _matches(node: ast.FunctionDef, code: types.CodeType) -> bool:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return node.name == code.co_name and code.co_varnames[: len(named)] == tuple(
        arg.arg for arg in named
    )


def _refuse_kind(fn: types.FunctionType) -> None:
    loc = Loc(fn.__code__.co_filename, fn.__code__.co_firstlineno)
    if fn.__code__.co_name == "<lambda>":
        raise CompilationError("a lambda cannot be compiled; write a function with `def`", loc=loc)
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise CompilationError(
            f"`{fn.__name__}` is an `async` function, which cannot be compiled; write a plain "
            "`def`",
            loc=loc,
        )
    parameters = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    outer = fn.__qualname__.rpartition(".")[0]
    if parameters[:1] in (("self",), ("cls",)) and outer and not outer.endswith("<locals>"):
        raise CompilationError(
            f"`{fn.__qualname__}` is a method, which cannot be compiled; move it out of the "
            f"class, or make it a static method without `{parameters[0]}`",
            loc=loc,
        )


def _unreadable(fn: types.FunctionType, why: str) -> CompilationError:
    code = fn.__code__
    return CompilationError(
        f"the source of `{fn.__name__}` cannot be read ({why}); a compiled function must be "
        "defined in a file or notebook cell, not by `exec` or on standard input",
        loc=Loc(code.co_filename, code.co_firstlineno),
    )


def _signature(fn: types.FunctionType) -> inspect.Signature:
    """The parameters that the source of a function declares.

    `inspect.signature` would believe the attributes `__signature__` and `__wrapped__`, by which
    decorators claim the parameters of another function.
    """
    if not vars(fn):
        return inspect.signature(fn)
    plain = types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    plain.__kwdefaults__, plain.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    return inspect.signature(plain)


def _not_a_function(fn: object) -> str:
    if inspect.ismethod(fn):
        return (
            f"`{_name(fn.__func__)}` is a method, which cannot be compiled; decorate a plain "
            "function"
        )
    if isinstance(fn, DeviceFunction):
        return f"`{fn.name}` is compiled already; decorate it once"
    if isinstance(fn, type):
        return f"`{fn.__name__}` is a class, which cannot be compiled; decorate a function"
    if isinstance(fn, staticmethod | classmethod):
        kind = type(fn).__name__
        return (
            f"`{_name(fn.__func__)}` is a {kind}, which cannot be compiled; "
            + ("write @tile.jit under @staticmethod" if kind == "staticmethod" else "")
            + ("move it out of the class" if kind == "classmethod" else "")
        )
    if isinstance(fn, functools.partial):
        return (
            f"a functools.partial of `{_name(fn.func)}` cannot be compiled; decorate the function "
            "itself, and give the arguments to each launch, or as defaults of its parameters"
        )
    if isinstance(fn, types.BuiltinFunctionType):
        return f"`{fn.__name__}` has no source in Python to compile; decorate a Python function"
    if isinstance(wrapped := inspect.getattr_static(fn, "__wrapped__", None), types.FunctionType):
        return (
            f"a {type(fn).__name__} around `{wrapped.__name__}` cannot be compiled; decorate the "
            "function itself with @tile.jit"
        )
    if callable(fn):
        return (
            f"an object of class {type(fn).__name__} cannot be compiled, though it can be called; "
            "decorate a function"
        )
    return f"only a Python function can be compiled, not {brief(fn)}"


def _wrapped(fn: types.FunctionType) -> list[str]:
    """A note for a function that another decorator made: the text compiled is the wrapper's."""
    if not hasattr(fn, "__wrapped__"):
        return []
    return [
        f"this is `{fn.__code__.co_name}`, which another decorator put around `{fn.__name__}`; to "
        f"compile `{fn.__name__}`, write @tile.jit under that decorator, next to the function"
    ]


def _name(fn: object) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__name__))
