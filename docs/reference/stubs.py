"""Generate the type stubs of `tile.language` and the names of its functions.

Type checkers cannot read the implementation: its functions have a hidden parameter, its values take
their methods and operators from tables, and its types are objects. The stubs are plain classes and
functions of the same names, made from these declarations, so that a checker accepts the kernels
that the compiler accepts.

The table of functions and their modules lets `import tile.language` import none of them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tile.language as tl
from tile.ir.dtype_members import NamedType
from tile.ir.types import Element, Pointer, Scalar, Tile, Type
from tile.language import extra, python_builtins
from tile.language._functions import MODULES
from tile.language.base.builtin import DESCRIPTOR_MEMBERS, MEMBERS, Builtin
from tile.language.base.dtypes import NAMES
from tile.language.extra import libdevice
from tile.language.operators import COMPARISONS, INSTEAD, PYTHON, PYTHON_UNARY
from tile.language.tensor_methods import DESCRIPTOR_PROPERTIES, PROPERTIES

LINE = 100  # columns


def template(file: str, **values: str) -> str:
    """Return the beginning of a generated file, `templates/FILE`, with values filled in."""
    text = (Path(__file__).with_name("templates") / file).read_text(encoding="utf-8")
    return text.format(**values) if values else text


# The protocols of Python that `range(n)`, `len(x)` and `abs(x)` require of an operand.
TENSOR_PROTOCOLS = """\
def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Tensor: ...
def __bool__(self) -> bool: ...
def __index__(self) -> int: ...
def __len__(self) -> int: ...
def __abs__(self) -> Tensor: ...
"""

# The types of a value's properties.
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

# The names in the stub of the annotations of implementations.
RENAMED = {
    "Operand": "Tensor | float",
    "Scalar | Pointer": "_Type",
    "Scalar": "_Type",
    "Pointer": "_Type",
    "Tile": "_Type",
    "Kind": "Any",
    "Signedness": "Any",
    "BlockPointer": "_BlockPointer",
    "Im2colDescriptor": "_Im2colDescriptor",
    "Tensor | BlockPointer": "Tensor",
    "Four": "tuple[Tensor, Tensor, Tensor, Tensor]",
    "Sequence[Operand]": "Sequence[Tensor | float]",
    "Operand | None": "Tensor | float | None",
}
OPERANDS = ("Operand", "Tensor")

# Functions whose result is one tensor, or a tuple, like their input.
LIKE_INPUT = ("reduce", "associative_scan")

ITERATED = {"range": "Tensor", "static_range": "int"}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a stub: `annotation` and `default` as text, "" if absent."""

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
        """Return a copy with other types of one parameter, which becomes required, and result."""
        parameters = tuple(
            Parameter(p.name, annotation) if p.name == name else p for p in self.parameters
        )
        return Signature(parameters, returns)


def functions() -> dict[str, Builtin[..., Any]]:
    """Return the functions of `tl` that the modules of `tile.language` declare, by name, in order.

    Those of `tl.extra` are functions of its modules alone.
    """
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(tl.__path__, f"{tl.__name__}.")
        if not module.name.startswith(extra.__name__)
    ]
    members = [item for module in modules for item in vars(module).items()]
    return {
        name: value
        for name, value in sorted(members, key=lambda member: member[0])
        if isinstance(value, Builtin) and name == value.name
    }


def functions_page() -> Iterator[str]:
    """Yield the lines of `tile/language/_functions.py`: a row of names for each module."""
    yield template("functions.txt")
    modules: dict[str, list[str]] = {}
    for name, function in functions().items():
        modules.setdefault(function.__module__.removeprefix(f"{tl.__name__}."), []).append(name)
    yield "MODULES = {"
    for module, names in sorted(modules.items()):
        text = " ".join(names)
        if len(module) + len(text) + 11 <= LINE:
            yield f'    "{module}": "{text}",'
        else:
            *rows, last = [text] if len(text) + 10 <= LINE else textwrap.wrap(text, LINE - 11)
            quoted = [f'        "{row}"' for row in (*(f"{row} " for row in rows), last)]
            yield "\n".join([f'    "{module}": (', *quoted, "    ),"])
    yield "}"


def stub_page() -> Iterator[str]:
    """Yield the lines of `tile/language/__init__.pyi`."""
    yield template("stub.txt", constexpr=_docstring(inspect.getdoc(tl.constexpr), 8))
    yield from _types()
    yield from _tensor()
    yield from _descriptor()
    yield from _loops()
    for name, function in functions().items():
        yield from _function(name, signatures(function), function.__doc__)
    listed = " ".join(MODULES.values()).split()
    yield f"__all__ = {sorted({*tl.__all__} - {*listed} | {*functions()})!r}"


def module_stub_page(module: ModuleType) -> Iterator[str]:
    """Yield the lines of the stub of a module, whose functions are in `tl` or `libdevice`, too."""
    yield template("module_stub.txt", name=module.__name__.rpartition(".")[2])
    declared = [name for name, f in functions().items() if f.__module__ == module.__name__]
    names = declared or vars(module)["__all__"]  # those of `tl` that a module only re-exports
    yield from _reexports("tile.language", names)
    yield from _reexports(libdevice.__name__, vars(module).get("ELEMENTARY", "").split())


def _reexports(module: str, names: Iterable[str]) -> Iterator[str]:
    lines = "".join(f"    {name} as {name},\n" for name in names)
    if lines:
        yield f"from {module} import (\n{lines})\n"


def libdevice_stub_page() -> Iterator[str]:
    """Yield the lines of the stub of `tl.extra.libdevice`."""
    yield template("libdevice_stub.txt")
    for name in sorted(vars(libdevice)["__all__"]):
        parameters = getattr(libdevice, name).signature.parameters
        operands = tuple(Parameter(operand, RENAMED["Operand"]) for operand in parameters)
        signature = Signature(operands, "Tensor")
        yield from _function(name, [signature], getattr(libdevice, name).__doc__)


def _types() -> Iterator[str]:
    """Yield the class of types, and each element type as an instance that can be an annotation."""
    yield "class dtype(type):"
    yield f"    {_docstring('The type of a value or of an element: `x.type`, `x.dtype`.', 4)}"
    members = _members(NamedType, Type, Element, Scalar, Pointer, Tile)
    for name, (signature, is_property) in sorted(members.items()):
        yield from _property(name, signature.returns) if is_property else _method(name, signature)
    names = {name: getattr(tl, name) for name in tl.__all__}
    elements = [name for name, ty in names.items() if isinstance(ty, Scalar | Pointer)]
    documented = (tl.block_type, tl.constexpr_type, tl.const)
    yield template(
        "stub_types.txt",
        elements="\n".join(
            f"class {name}(Any, Protocol, metaclass=dtype): ..." for name in elements
        ),
        **{cls.__name__: _docstring(inspect.getdoc(cls), 4) for cls in documented},
    )


def _members(*classes: type) -> dict[str, tuple[Signature, bool]]:
    """Return the public methods and properties of type classes by name; True for a property."""
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
    """Yield the class of values and the class of comparison results."""
    yield "class Tensor(_Value):"
    yield f"    {_docstring(inspect.getdoc(tl.Tensor), 4)}"
    yield textwrap.indent(TENSOR_PROTOCOLS, "    ").rstrip()
    yield from _operators()
    yield from _properties((*PROPERTIES, "T"), TENSOR_PROPERTIES)
    for name, function in sorted(MEMBERS.items()):
        receiver, *_ = function.signature.parameters
        methods = [s for s in signatures(function) if _takes_tensor(s, receiver)]
        unbound = [Signature(s.parameters[1:], _of_tensor(s.returns)) for s in methods]
        yield from _methods(name, unbound, function.__doc__)
    yield "\ntensor = Tensor\n"
    yield "class Condition(Tensor, Any):"
    doc = "The result of a comparison; Python's `min` and `max` of tensors accept it as a bool."
    yield f"    {_docstring(doc, 4)}\n"


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
    for cls in (python_builtins.range, python_builtins.static_range, python_builtins.condition):
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
    """Return a function's overloads: one, unless the result type depends on the arguments."""
    whole = _signature(function.signature)
    if function.name in LIKE_INPUT:
        return [whole.with_annotation("input", "_T", "_T")]
    if any(p.name == "return_indices" for p in whole.parameters):
        return _with_indices(whole)
    if whole.returns != "Any":
        return [whole]
    operands = [p.name for p in function.signature.parameters.values() if p.annotation in OPERANDS]
    overloads = [whole.with_annotation(name, "Tensor", "Tensor") for name in operands]
    numbers = whole
    for name in operands:
        numbers = numbers.with_annotation(name, "float", "Any")
    return [*overloads, numbers]


def _with_indices(whole: Signature) -> list[Signature]:
    """Return the overloads by the value of `return_indices`, by position and by keyword."""
    index = [p.name for p in whole.parameters].index("return_indices")
    before, (flag, *after) = whole.parameters[:index], whole.parameters[index:]
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
        _renamed(parameter.annotation, is_parameter=True),
        "" if default is parameter.empty else _literal(default),
        parameter.kind is parameter.VAR_POSITIONAL,
    )


def _renamed(annotation: str, *, is_parameter: bool = False) -> str:
    """Return an annotation in the stub's names.

    A parameter that takes a type is Any: checkers do not see that element types are of `dtype`.
    """
    text = RENAMED.get(annotation, annotation)
    return "Any" if is_parameter and text == "_Type" else text


def _literal(default: object) -> str:
    if isinstance(default, Scalar):
        return NAMES[default]
    return str(default) if isinstance(default, tl.PropagateNan) else repr(default)


def _takes_tensor(signature: Signature, receiver: str) -> bool:
    """Return True if an overload can be a method's: its first argument may be a tensor."""
    first = signature.parameters[0]
    return first.name == receiver and first.annotation != "float"


def _of_tensor(returns: str) -> str:
    return "Tensor" if returns == "_T" else returns


def _dunder(function: Callable[..., object], prefix: str = "") -> str:
    return f"__{prefix}{function.__name__.strip('_')}__"


def _methods(name: str, overloads: list[Signature], doc: str | None) -> Iterator[str]:
    """Yield a method with its overloads, the first one of those with equal parameters."""
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
    """Yield the definition of a function; the first overload has the docstring."""
    for signature in overloads:
        if len(overloads) > 1:
            yield "@overload"
        parameters = ", ".join(_text(p) for p in signature.parameters)
        head = f"def {name}({parameters}) -> {signature.returns}:"
        if len(head) > LINE - 8:
            lines = "".join(f"    {_text(p)},\n" for p in signature.parameters)
            head = f"def {name}(\n{lines}) -> {signature.returns}:"
        if doc and signature is overloads[0]:
            yield head
            yield f"    {_docstring(inspect.cleandoc(doc), 4)}"
        else:
            yield f"{head} ..."


def _text(parameter: Parameter) -> str:
    if not parameter.annotation:
        return "*" if parameter.star else parameter.name
    return str(parameter)


def _docstring(text: str | None, indent: int) -> str:
    """Return a docstring whose lines after the first are indented."""
    content = (text or "").replace("\\", "\\\\")
    end = "\n" if "\n" in content else ""
    return textwrap.indent(f'"""{content}{end}"""', " " * indent).lstrip()
