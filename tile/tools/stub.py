"""The stubs of `tile.language`: what type checkers and editors see of it.

A kernel is not Python: its functions hide a parameter, its values take their methods and operators
from tables, and its types are objects. `tile reference stub` writes the same names as plain classes
and functions, from these declarations, so that a checker accepts what the compiler does.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import tile.language as tl
from tile.ir.types import Pointer, Scalar, Tile, Type
from tile.language import iterators
from tile.language.attributes import DESCRIPTOR_PROPERTIES, PROPERTIES
from tile.language.builtin import DESCRIPTOR_MEMBERS, MEMBERS, Builtin
from tile.language.dtypes import NAMES
from tile.language.operators import COMPARISONS, INSTEAD, PYTHON, PYTHON_UNARY

HEAD = '''\
"""The language of kernels, as type checkers and editors see it: `import tile.language as tl`.

Made by `tile reference stub` from the declarations in `tile/language/`.
"""

# mypy: disable-error-code="misc, override, overload-overlap, no-redef"
# pyright: reportRedeclaration=false, reportGeneralTypeIssues=false

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from tile.language import _math as math
from tile.language import _random
from tile.language.python import PYTHON_BUILTINS as PYTHON_BUILTINS
from tile.language.selection import PropagateNan as PropagateNan

random = _random  # not in `__all__`, so an import under this name would be private

MYPY = False  # mypy takes it for true

_T = TypeVar("_T")
_Index: TypeAlias = slice | EllipsisType | None

# An annotation changes no value, so one of `constexpr` or of an element type takes any argument and
# any default, and what it annotates goes everywhere: in pyright it is a protocol that all satisfy,
# derived from Any. `tl.constexpr(8)` is a call of its constructor, which the decorator keeps from
# being one of a protocol. In mypy, which decorates no classes, it is Any.
class _Constexpr(Any, Protocol): ...

def _constructor(cls: object) -> type[_Constexpr]: ...

if MYPY:
    from _typeshed import Incomplete as constexpr
else:
    @_constructor
    class constexpr:
        {constexpr}
        value: Any
        def __init__(self, value: Any) -> None: ...

# A name whose first value is a Python number has that number's type in mypy, also where a loop goes
# on to assign tensors to it; so to mypy a tensor is a number as well.
if MYPY:
    class _Value(bool, float): ...
else:
    class _Value: ...
'''

MODULE_HEAD = '''\
"""The functions of `tl.{name}`, as type checkers and editors see them.

Made by `tile reference {name}-stub` from `tile.language.{name}`.
"""

'''

# What Python asks of an operand where a kernel writes `range(n)`, `len(x)` and `abs(x)`.
TENSOR_PROTOCOLS = """\
def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Tensor: ...
def __bool__(self) -> bool: ...
def __index__(self) -> int: ...
def __len__(self) -> int: ...
def __abs__(self) -> Tensor: ...
"""

# The types of what stands after the dot of a value without a call.
TENSOR_PROPERTIES = {
    "type": "_Type",
    "dtype": "_Type",
    "shape": "tuple[int, ...]",
    "numel": "int",
    "T": "Tensor",
}
DESCRIPTOR_TYPES = {
    "type": "_Type",
    "dtype": "_Type",
    "shape": "tuple[Tensor, ...]",
    "strides": "tuple[Tensor, ...]",
    "block_shape": "tuple[int, ...]",
    "block_type": "_Type",
}

# The annotations of implementations that a kernel's author knows under other names.
RENAMED = {
    "Operand": "Tensor | float",
    "Scalar | Pointer": "_Type",
    "Scalar": "_Type",
    "Pointer": "_Type",
    "Tile": "_Type",
    "Kind": "int",
    "Four": "tuple[Tensor, Tensor, Tensor, Tensor]",
    "Sequence[Operand]": "Sequence[Tensor | float]",
    "Operand | None": "Tensor | float | None",
}
OPERANDS = ("Operand", "Tensor")

# Functions whose result is one tensor or several, as their input is.
LIKE_INPUT = ("reduce", "associative_scan")

ITERATED = {"range": "Tensor", "static_range": "int"}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a stub: `annotation` and `default` as text, "" where there is none."""

    name: str
    annotation: str
    default: str = ""
    star: bool = False

    def __str__(self) -> str:
        equals = f" = {self.default}" if self.default else ""
        return f"{'*' * self.star}{self.name}: {self.annotation}{equals}"


@dataclasses.dataclass(frozen=True)
class Signature:
    """The parameters of a function and the type of its result."""

    parameters: tuple[Parameter, ...]
    returns: str

    def with_annotation(self, name: str, annotation: str, returns: str) -> Signature:
        """The same with another type of one parameter, which is then to be given, and result."""
        changed = tuple(
            Parameter(p.name, annotation) if p.name == name else p for p in self.parameters
        )
        return Signature(changed, returns)


def stub_page() -> Iterator[str]:
    """The lines of `tile/language/__init__.pyi`."""
    yield HEAD.format(constexpr=_docstring(inspect.getdoc(tl.constexpr), 8))
    yield from _types()
    yield from _tensor()
    yield from _descriptor()
    yield from _loops()
    for name in tl.__all__:
        function = getattr(tl, name)
        if isinstance(function, Builtin):
            yield from _function(function.name, signatures(function), function.__doc__)
    yield f"__all__ = {tl.__all__!r}"


def module_stub_page(module: ModuleType) -> Iterator[str]:
    """The lines of the stub of a module of functions that are all in `tl` as well."""
    yield MODULE_HEAD.format(name=module.__name__.rpartition(".")[2])
    names = [n for n in tl.__all__ if getattr(getattr(tl, n), "__module__", "") == module.__name__]
    yield "from tile.language import (\n" + "".join(f"    {n} as {n},\n" for n in names) + ")\n"


def _types() -> Iterator[str]:
    """The class of types, and each element type as an instance of it that annotations may name."""
    yield "class dtype(type):"
    yield f"    {_docstring('The type of a value or of an element: `x.type`, `x.dtype`.', 4)}"
    for name, (signature, is_property) in sorted(_members(Type, Scalar, Pointer, Tile).items()):
        yield from _property(name, signature.returns) if is_property else _method(name, signature)
    yield "\n_Type: TypeAlias = dtype\n"
    yield "class pointer_type(dtype):"
    yield f"    {_docstring('The type of pointers to elements of type `pointee`.', 4)}"
    yield "    def __init__(self, pointee: Any) -> None: ...\n"
    for name in tl.__all__:
        if isinstance(getattr(tl, name), Scalar | Pointer):
            yield f"class {name}(Any, Protocol, metaclass=dtype): ..."
    yield "\nclass const(Any, Protocol):"
    yield f"    {_docstring(inspect.getdoc(tl.const), 4)}\n"


def _members(*classes: type) -> dict[str, tuple[Signature, bool]]:
    """Public methods and properties of classes of types, by name; True for a property."""
    members: dict[str, tuple[Signature, bool]] = {}
    for cls in classes:
        for name, value in vars(cls).items():
            is_property = isinstance(value, property)
            function = value.fget if isinstance(value, property) else value
            if not name.startswith("_") and inspect.isfunction(function):
                members[name] = _signature(inspect.signature(function), skip=1), is_property
    fields = dataclasses.fields(Scalar)
    members |= {f.name: (Signature((), _renamed(str(f.type))), True) for f in fields}
    return members


def _tensor() -> Iterator[str]:
    """The class of values, and that of comparisons."""
    yield "class Tensor(_Value):"
    yield f"    {_docstring(inspect.getdoc(tl.Tensor), 4)}"
    yield textwrap.indent(TENSOR_PROTOCOLS, "    ").rstrip()
    yield from _operators()
    yield from _properties((*PROPERTIES, "T"), TENSOR_PROPERTIES)
    for name, function in sorted(MEMBERS.items()):
        receiver, *_ = function.__signature__.parameters
        methods = [s for s in signatures(function) if _takes_tensor(s, receiver)]
        unbound = [Signature(s.parameters[1:], _of_tensor(s.returns)) for s in methods]
        yield from _methods(name, unbound, function.__doc__)
    yield "\ntensor = Tensor\n"
    yield "class Condition(Tensor, Any):"
    about = "The result of a comparison, which Python's `min` and `max` of tensors take for a bool."
    yield f"    {_docstring(about, 4)}\n"


def _operators() -> Iterator[str]:
    for symbol, unary in PYTHON_UNARY.items():
        if symbol != "not":
            yield f"    def {_dunder(unary)}(self) -> Tensor: ..."
    other = f"other: {RENAMED['Operand']}"
    for symbol, binary in PYTHON.items():
        if symbol in COMPARISONS:
            compared = "other: object" if symbol in ("==", "!=") else other
            yield f"    def {_dunder(binary)}(self, {compared}) -> Condition: ..."
        elif symbol not in INSTEAD:
            yield f"    def {_dunder(binary)}(self, {other}) -> Tensor: ..."
            yield f"    def {_dunder(binary, 'r')}(self, {other}) -> Tensor: ..."


def _descriptor() -> Iterator[str]:
    yield "class tensor_descriptor:"
    yield f"    {_docstring('An array with bounds; see `tl.make_tensor_descriptor`.', 4)}"
    yield from _properties(DESCRIPTOR_PROPERTIES, DESCRIPTOR_TYPES)
    for name, function in sorted(DESCRIPTOR_MEMBERS.items()):
        bound = [Signature(s.parameters[1:], s.returns) for s in signatures(function)]
        yield from _methods(name, bound, function.__doc__)
    yield ""


def _loops() -> Iterator[str]:
    for cls in (iterators.range, iterators.static_range, iterators.condition):
        yield f"class {cls.__name__}:"
        yield f"    {_docstring(inspect.getdoc(cls), 4)}"
        yield from _method("__init__", _signature(inspect.signature(cls.__init__), skip=1))
        if cls.__name__ in ITERATED:
            yield f"    def __iter__(self) -> Iterator[{ITERATED[cls.__name__]}]: ..."
        yield ""


def _properties(names: Iterable[str], types: dict[str, str]) -> Iterator[str]:
    for name in names:
        yield from _property(name, types[name])


def signatures(function: Builtin[..., Any]) -> list[Signature]:
    """The overloads of a function: one, unless the type of its result depends on its arguments."""
    whole = _signature(function.__signature__)
    if function.name in LIKE_INPUT:
        return [whole.with_annotation("input", "_T", "_T")]
    if any(p.name == "return_indices" for p in whole.parameters):
        return _with_indices(whole)
    if whole.returns != "Any":
        return [whole]
    operands = [
        p.name for p in function.__signature__.parameters.values() if p.annotation in OPERANDS
    ]
    overloads = [whole.with_annotation(name, "Tensor", "Tensor") for name in operands]
    numbers = whole
    for name in operands:
        numbers = numbers.with_annotation(name, "float", "Any")
    return [*overloads, numbers]


def _with_indices(whole: Signature) -> list[Signature]:
    """The overloads by whether `return_indices` is given, by position and by keyword."""
    at = [p.name for p in whole.parameters].index("return_indices")
    before, flag, after = whole.parameters[:at], whole.parameters[at], whole.parameters[at + 1 :]
    false = Parameter(flag.name, "Literal[False]", flag.default)
    true = Parameter(flag.name, "Literal[True]")
    required = tuple(Parameter(p.name, p.annotation) for p in before)
    keyword = Parameter("", "", star=True)
    return [
        Signature((*before, false, *after), "Tensor"),
        Signature((*required, true, *after), "tuple[Tensor, Tensor]"),
        Signature((*before, keyword, true, *after), "tuple[Tensor, Tensor]"),
    ]


def _signature(signature: inspect.Signature, skip: int = 0) -> Signature:
    parameters = list(signature.parameters.values())[skip:]
    return Signature(tuple(map(_parameter, parameters)), _renamed(signature.return_annotation))


def _parameter(parameter: inspect.Parameter) -> Parameter:
    default = parameter.default
    return Parameter(
        parameter.name,
        _renamed(parameter.annotation, given=True),
        "" if default is parameter.empty else _spelled(default),
        parameter.kind is parameter.VAR_POSITIONAL,
    )


def _renamed(annotation: str, *, given: bool = False) -> str:
    """An annotation in names of the stub. Checkers do not see that element types are of `dtype`."""
    text = RENAMED.get(annotation, annotation)
    return "Any" if given and text == "_Type" else text


def _spelled(default: object) -> str:
    if isinstance(default, Scalar):
        return NAMES[default]
    return str(default) if isinstance(default, tl.PropagateNan) else repr(default)


def _takes_tensor(signature: Signature, receiver: str) -> bool:
    """Return True if an overload may be that of a method: its first argument may be a tensor."""
    first = signature.parameters[0]
    return first.name == receiver and first.annotation != "float"


def _of_tensor(returns: str) -> str:
    return "Tensor" if returns == "_T" else returns


def _dunder(function: Callable[..., object], prefix: str = "") -> str:
    return f"__{prefix}{function.__name__.strip('_')}__"


def _methods(name: str, overloads: list[Signature], doc: str | None) -> Iterator[str]:
    """A method; of overloads with equal parameters the first."""
    distinct = list({s.parameters: s for s in reversed(overloads)}.values())[::-1]
    receiver = Parameter("self", "")
    bound = [Signature((receiver, *s.parameters), s.returns) for s in distinct]
    yield textwrap.indent("\n".join(_function(name, bound, doc)), "    ")


def _method(name: str, signature: Signature) -> Iterator[str]:
    yield from _methods(name, [signature], None)


def _property(name: str, returns: str) -> Iterator[str]:
    yield "    @property"
    yield f"    def {name}(self) -> {returns}: ..."


def _function(name: str, overloads: list[Signature], doc: str | None) -> Iterator[str]:
    """The definition of a function, its docstring with the first overload."""
    for signature in overloads:
        if len(overloads) > 1:
            yield "@overload"
        parameters = ", ".join(_shown(p) for p in signature.parameters)
        head = f"def {name}({parameters}) -> {signature.returns}:"
        if len(head) > 92:
            lines = "".join(f"    {_shown(p)},\n" for p in signature.parameters)
            head = f"def {name}(\n{lines}) -> {signature.returns}:"
        if doc and signature is overloads[0]:
            yield head
            yield f"    {_docstring(inspect.cleandoc(doc), 4)}"
        else:
            yield f"{head} ..."


def _shown(parameter: Parameter) -> str:
    if not parameter.annotation:
        return "*" if parameter.star else parameter.name
    return str(parameter)


def _docstring(text: str | None, indent: int) -> str:
    """A docstring, indented behind its first line."""
    body = (text or "").replace("\\", "\\\\")
    end = "\n" if "\n" in body else ""
    return textwrap.indent(f'"""{body}{end}"""', " " * indent).lstrip()
