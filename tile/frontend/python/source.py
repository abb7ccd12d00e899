"""Jitted Python functions: their parameters, source text and AST."""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import inspect
import linecache
import textwrap
import tokenize
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_origin

from tile.errors import ArgumentTypeError, CompilationError
from tile.language.base.tensor import Tensor
from tile.location import Loc
from tile.pickling import PickledByName
from tile.short_repr import short_repr

REQUIRED = inspect.Parameter.empty
ABSENT = object()  # the value of a name that is not bound


@dataclass(frozen=True)
class Parameter:
    """One parameter of a jitted function; `default` is `REQUIRED` if it has none.

    is_const: the function writes nothing through it, or it is refused.
    is_noalias: launches pass arrays of which those that are written overlap no other.
    """

    name: str
    annotation: Any
    default: Any
    is_constexpr: bool
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    is_const: bool = False
    is_noalias: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_rest(self) -> bool:
        """True for `*args`: the tuple of the arguments that are left."""
        return self.kind is inspect.Parameter.VAR_POSITIONAL


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a function with its AST, which has no decorators.

    `shift` is the file's line number minus that of the AST. `lines` are lines of the file, from
    line 1 + `shift` on.
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
        """Return the location of a node: its first line if it spans several."""
        line = self.lines[node.lineno - 1]
        column, end = node.col_offset, node.end_col_offset or 0
        if not line.isascii():  # the AST counts bytes
            raw = line.encode()
            column, end = len(raw[:column].decode()), len(raw[:end].decode(errors="ignore"))
        if node.end_lineno != node.lineno:
            end = len(line.rstrip())
        return Loc(self.file, node.lineno + self.shift, column, end, function)

    def assigned_in(self, node: ast.For | ast.While | ast.FunctionDef) -> dict[str, ast.Name]:
        """Return the names assigned inside a loop or function, each with its first assignment.

        The names of comprehensions are not among them.
        """
        names = self.assigned.get(node)
        if names is None:
            names = self.assigned[node] = {}
            local: set[ast.AST] = set()
            for inner in ast.walk(node):
                if isinstance(inner, ast.comprehension):
                    local.update(ast.walk(inner.target))
                elif (name := assigned_name(inner)) is not None and name not in local:
                    first = names.setdefault(name.id, name)
                    if (name.lineno, name.col_offset) < (first.lineno, first.col_offset):
                        names[name.id] = name
        return names


def assigned_name(node: ast.AST) -> ast.Name | None:
    """Return the name that a target assigns, or None for any other node.

    The targets `a.b.c` and `a[0]` assign `a`: fields and items are parts of the value.
    """
    if not isinstance(getattr(node, "ctx", None), ast.Store):
        return None
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


class DeviceFunction(PickledByName):
    """A Python function to compile: a kernel, or a function that kernels call.

    `noinline` keeps calls of it from being inlined. Raises `ArgumentTypeError` if `fn` is not a
    plain function. The source is read, and checked, on first access. `rules` are the compilation
    rules of another language (`tile.frontend.python.lowering_context.Rules`), None for Python's.
    """

    rules: object = None
    loose_annotations = False
    """True if annotations are Triton's: where kernels call the function, names and parameters
    annotated `tl.constexpr` also take runtime values, and a dtype of a local name is ignored."""
    launch_defaults: Callable[[], Mapping[str, Any]] = dict
    """A function that each compilation asks for defaults of launch options, by name."""
    method_of = ""
    """The name of the aggregate that the function is a method of."""

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
        self.__globals__ = fn.__globals__

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Return `__signature__`, computed on first access."""
            if name != "__signature__":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__signature__ = inspect.signature(self.fn)
            return self.__signature__

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order. Raises `CompilationError` for `**kwargs`."""
        return tuple(map(self._parameter, _signature(self.fn).parameters.values()))

    def _parameter(self, parameter: inspect.Parameter) -> Parameter:
        if parameter.kind is parameter.VAR_KEYWORD:
            raise self.refused_parameter(f"**{parameter.name}")
        rest = parameter.kind is parameter.VAR_POSITIONAL
        return Parameter(
            parameter.name,
            parameter.annotation,
            () if rest else parameter.default,
            is_constexpr_annotation(parameter.annotation),
            parameter.kind,
            is_const_annotation(parameter.annotation),
        )

    def refused_parameter(self, spelled: str) -> CompilationError:
        """Return the error for `*args` of a kernel, or `**kwargs`."""
        return CompilationError(
            f"`{spelled}` is not supported: a compiled function has a fixed number of parameters; "
            "pass a tuple as one argument",
            loc=self._parameter_loc(spelled.lstrip("*")),
            notes=_wrapped(self.fn),
        )

    def _parameter_loc(self, parameter: str) -> Loc:
        arguments = self.source.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
        return self.source.loc(next(a for a in every if a.arg == parameter), self.name)

    @cached_property
    def source(self) -> Source:
        """The function's text and AST. Raises `CompilationError` if there is no usable source."""
        return read_source(self.fn, method=bool(self.method_of))

    @cached_property
    def loc(self) -> Loc:
        """The location of the function's name in its definition."""
        node = self.source.node
        line = self.source.lines[node.lineno - 1]
        column = line.find(node.name, line.find("def") + 3)
        return Loc(
            self.source.file, self.source.first_line, column, column + len(node.name), self.name
        )

    def outside(self, name: str) -> tuple[bool, Any]:
        """Return whether a name exists outside the function, and its value.

        Closure variables come before globals, and globals before Python's builtins.
        """
        fn = self.fn
        free = fn.__code__.co_freevars
        if name in free and fn.__closure__ is not None:
            value = cell_contents(fn.__closure__[free.index(name)])
        else:
            value = fn.__globals__.get(name, getattr(builtins, name, ABSENT))
        return value is not ABSENT, None if value is ABSENT else value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"


def cell_contents(cell: types.CellType) -> Any:
    """Return the value of a closure variable, or `ABSENT` if it is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def spell_parameters(name: str, parameters: Iterable[Parameter]) -> str:
    """Return the text of a function's signature, without types."""
    words = []
    for parameter in parameters:
        star = "*" if parameter.is_rest else ""
        word = star + parameter.name + (": tl.constexpr" if parameter.is_constexpr else "")
        equals = " = " if parameter.is_constexpr else "="
        default = "" if parameter.required or star else equals + short_repr(parameter.default)
        words.append(word + default)
    return f"{name}({', '.join(words)})"


def names_read(code: types.CodeType) -> Iterator[str]:
    """Yield the global and attribute names that code reads, inner functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_read(constant)


def is_constexpr_annotation(annotation: Any) -> bool:
    """Return True if an annotation is `tl.constexpr`, the class or its name as text.

    `Annotated[tl.constexpr, (32, ..., 128)]`, with the values to tune among, is one, too.
    """
    if isinstance(annotation, str):
        text = annotation.strip("\"' ")
        if text.partition("[")[0].rpartition(".")[2] == "Annotated":
            text = text.partition("[")[2].partition(",")[0].strip()
        return text.rpartition(".")[2] == "constexpr"
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    return isinstance(annotation, type) and annotation.__name__ == "constexpr"


def is_tensor_annotation(annotation: Any) -> bool:
    """Return True if an annotation is `tl.tensor`, the class or its name as text."""
    if isinstance(annotation, str):
        return annotation.strip("\"' ").rpartition(".")[2] in ("tensor", "Tensor")
    return isinstance(annotation, type) and issubclass(annotation, Tensor)


def is_const_annotation(annotation: Any) -> bool:
    """Return True for `tl.const`, the class or its name, and for text such as `const *fp32`."""
    if isinstance(annotation, str):
        text = annotation.strip("\"' ")
        return text.rpartition(".")[2] == "const" or text.startswith(("const ", "*k"))
    return isinstance(annotation, type) and annotation.__name__ == "const"


def read_source(fn: types.FunctionType, *, method: bool = False) -> Source:
    """Return the source of a function with its AST, or raise `CompilationError`.

    method: it is a method of an aggregate.
    """
    _refuse_kind(fn, method)
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
    # They do not decide what is compiled; those of TorchInductor are longer than the function.
    node.decorator_list = []
    file = fn.__code__.co_filename
    shown_lines = ("if 1:\n",) * added + tuple(lines)
    return Source(file, textwrap.dedent(text), node, first - 1 - added, shown_lines)


def source_of_text(fn: types.FunctionType, text: str) -> Source:
    """Return the source of a text that stands for that of a function.

    Error messages show its lines, which are entered in `linecache` under a name of their own.
    Raises `CompilationError` for a text that does not define a function of the same parameters.
    """
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, IndexError) as error:
        raise _unreadable(fn, f"the new text cannot be parsed: {error}") from error
    if not isinstance(node, ast.FunctionDef) or not _matches(node, fn.__code__):
        raise _unreadable(fn, "the new text does not define the same name and parameters")
    node.decorator_list = []
    file = f"<{fn.__qualname__} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    return Source(file, text, node, 0, tuple(lines))


def _source_lines(fn: types.FunctionType) -> tuple[list[str], int]:
    """Return the lines of a definition and the number of the first, as `inspect.getsourcelines`.

    `inspect.getsourcelines` searches all loaded modules for the function's module, comparing the
    real paths of their files. With PyTorch there are thousands of modules, and the search takes
    longer than loading a kernel from disk. Instead, pass the function's globals to `linecache`,
    which finds lines of archives and notebooks through them. Raises `OSError` if there is no
    source.
    """
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if not 0 < code.co_firstlineno <= len(lines):
        raise OSError("could not get source code" if not lines else "lineno is out of bounds")
    return inspect.getblock(lines[code.co_firstlineno - 1 :]), code.co_firstlineno


def _parse(text: str) -> tuple[ast.Module, int]:
    """Return the AST of a definition, and the number of lines added in front of it.

    An indented definition gets a header line instead of being dedented, which preserves the columns
    of the file and the text of multi-line strings.
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


def _refuse_kind(fn: types.FunctionType, method: bool) -> None:
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
    in_class = bool(outer) and not outer.endswith("<locals>")
    if parameters[:1] in (("self",), ("cls",)) and in_class and not method:
        raise CompilationError(
            f"`{fn.__qualname__}` is a method, which cannot be compiled; move it out of the "
            f"class, make it a static method without `{parameters[0]}`, or decorate the class with "
            "@tile.aggregate",
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
    """Return the parameters that the source of a function declares.

    `inspect.signature` alone follows the attributes `__signature__` and `__wrapped__`, with which
    decorators present the parameters of another function.
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
    return f"only a Python function can be compiled, not {short_repr(fn)}"


def _wrapped(fn: types.FunctionType) -> list[str]:
    """Return a note if `fn` is another decorator's wrapper: the wrapper's text is compiled."""
    if not hasattr(fn, "__wrapped__"):
        return []
    return [
        f"this is `{fn.__code__.co_name}`, which another decorator put around `{fn.__name__}`; to "
        f"compile `{fn.__name__}`, write @tile.jit under that decorator, next to the function"
    ]


def _name(fn: object) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__name__))
