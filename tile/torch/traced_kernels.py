"""Variables of TorchDynamo for kernels, whose launches become calls of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch._dynamo import variables
from torch._dynamo.bytecode_transformation import create_binary_subscr
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import BaseListVariable
from torch._dynamo.variables.tensor import SymNodeVariable

from tile.errors import TileError
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import innermost
from tile.runtime.binding import OPTION_DEFAULTS
from tile.runtime.specialize import Constant
from tile.torch.launches import (
    AXES,
    EXTENT,
    OPERATORS,
    Argument,
    Group,
    Operand,
    TracedLaunch,
    descriptor,
    operands_of,
    rules,
    wrappers,
)
from tile.torch.traced_descriptors import FIELDS, DescriptorVariable

NUMBERS = {int: "SymInt", float: "float", bool: "bool"}  # by class, the type in schemas


class KernelVariable(VariableTracker):
    """A kernel in a compiled function; with a grid, its launch function."""

    def __init__(self, kernel: Any, grid: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel = kernel
        self.grid = grid

    def python_type(self) -> type:
        return type(self.kernel)

    def as_python_constant(self) -> Any:
        """Return the kernel, as an argument of another one."""
        return self.kernel if self.grid is None else super().as_python_constant()

    def mp_subscript_impl(self, tx: Any, key: VariableTracker) -> VariableTracker:
        """Return the launch function on a grid."""
        return KernelVariable(self.kernel, key, source=self.source)

    def call_method(
        self, tx: Any, name: str, args: Sequence[VariableTracker], kwargs: dict[str, Any]
    ) -> VariableTracker:
        if name == "__getitem__" and self.grid is None:  # torch 2.11
            return self.mp_subscript_impl(tx, args[0])
        if name == "run" and self.grid is None and "warmup" not in kwargs:
            grid = kwargs.pop("grid")
            return KernelVariable(self.kernel, grid).call_function(tx, args, kwargs)
        result: VariableTracker = super().call_method(tx, name, list(args), kwargs)
        return result

    def call_function(
        self, tx: Any, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Add the launch to the graph."""
        if self.grid is None:
            _refuse(self.kernel, f"it has no grid: {self.kernel.__name__}[grid](...)")
        return _Call(tx, self.kernel, args, kwargs).launch(self.grid)

    def reconstruct(self, codegen: Any) -> None:
        """Generate `kernel[grid]`, for a launch that is left out of the graph."""
        codegen(self.source)
        if self.grid is not None:
            codegen(self.grid)
            codegen.append_output(create_binary_subscr())


def _refuse(kernel: Any, reason: str, error: Exception | None = None) -> NoReturn:
    """Leave a launch out of the graph, which is an error with `fullgraph=True`."""
    cause: dict[str, Any] = {} if error is None else {"from_exc": error}
    unimplemented(
        gb_type="Launch of a kernel of tile",
        context=f"{innermost(kernel).__name__}()",
        explanation=f"this launch cannot be part of a graph: {reason}",
        hints=[],
        **cause,
    )
    raise AssertionError("TorchDynamo has not raised")


class _Call:
    """One launch in a compiled function, whose arguments become those of an operator."""

    def __init__(self, tx: Any, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.tx = tx
        self.kernel = kernel
        names = kernel.arg_names
        if len(args) > len(names):
            _refuse(kernel, f"it has {len(args)} arguments, and the kernel {len(names)} parameters")
        self.named = {**dict(zip(names, args, strict=False)), **kwargs}
        parameters = innermost(kernel).parameters
        self.constants = {p.name for p in parameters if p.is_constexpr}
        self.numbers = {p.name for p in parameters} - self.constants
        self.values: list[VariableTracker] = []  # of the operator's arguments
        self._tensors: dict[Any, Operand] = {}  # by node of the graph

    def launch(self, grid: VariableTracker) -> VariableTracker:
        """Add the launch to the graph."""
        arguments = {name: self._argument(name, value) for name, value in self.named.items()}
        configs = self._configs()
        launch = TracedLaunch(self.kernel, arguments, configs)
        try:
            written = launch.written()
        except TileError as error:
            _refuse(self.kernel, str(error), error)
        self._check_autograd(arguments, written)
        extents = [
            extent
            for config in configs or (None,)
            for extent in self._extents(self._grid(grid, config))
        ]
        operator = OPERATORS.operator(launch, written)
        call = variables.TorchInGraphFunctionVariable(operator).call_function
        call(self.tx, [*self.values, *extents], {})
        return ConstantVariable.create(None)

    def _configs(self) -> tuple[Any, ...]:
        """Return the configurations of the kernel's tuner, if it has one; the same for two."""
        tuners = [one for one in wrappers(self.kernel) if isinstance(one, Autotuner)]
        if len(tuners) > 1:
            _refuse(self.kernel, "it has two autotuners")
        return tuple(tuners[0].configs) if tuners else ()

    # -- arguments

    def _argument(self, name: str, value: Any) -> Argument:
        value = value.realize()
        if name in self.constants and isinstance(value, SymNodeVariable):
            return Constant(
                value.evaluate_expr()
            )  # the graph is for this value, and is guarded by it
        if value.is_tensor():
            return self._tensor(name, value)
        if isinstance(value, SymNodeVariable):
            return self._symbol(name, value)
        if isinstance(value, DescriptorVariable):
            fields = tuple(self._argument(name, field) for field in value.fields)
            return Group(descriptor, fields, "descriptor")
        kind = value.python_type()
        if issubclass(kind, tuple | list):
            items = value.unpack_var_sequence(self.tx)
            parts = tuple(self._argument(name, item) for item in items)
            return Group(getattr(kind, "_make", tuple), parts, kind.__name__)
        if isinstance(value, variables.UserDefinedObjectVariable):
            return self._object(name, value)
        if not value.is_python_constant():
            _refuse(self.kernel, f"argument {name!r} is {value}, which is no tensor and no number")
        return self._constant(name, value)

    def _constant(self, name: str, value: Any) -> Argument:
        """Return a value that is known; numbers for runtime parameters stay the call's own."""
        constant = value.as_python_constant()
        kind = NUMBERS.get(type(constant))
        if kind is None or name not in self.numbers or not _fits(constant):
            return Constant(constant)
        self.values.append(value)
        return Operand(len(self.values) - 1, kind, constant)

    def _tensor(self, name: str, value: Any) -> Operand:
        """Return the operand of a tensor; arguments that are one tensor share it."""
        node = value.as_proxy().node
        if node not in self._tensors:
            fake = node.meta["example_value"]
            try:
                sample = MockArray(fake.dtype)
            except TileError as error:
                _refuse(self.kernel, f"argument {name!r}: {error}", error)
            operand = Operand(len(self.values), "Tensor", sample, fake.device.type)
            self._tensors[node] = operand
            self.values.append(value)
        return self._tensors[node]

    def _symbol(self, name: str, value: Any) -> Operand:
        """Return the operand of a number that depends on shapes or inputs."""
        kinds = {torch.SymInt: "SymInt", torch.SymFloat: "float", torch.SymBool: "bool"}
        kind = kinds.get(type(value.sym_num), "SymInt")
        sample = {"SymInt": EXTENT, "float": float(EXTENT), "bool": True}[kind]
        self.values.append(value)
        return Operand(len(self.values) - 1, kind, sample)

    def _object(self, name: str, value: Any) -> Argument:
        """Return the fields of a tensor descriptor, or a constant such as a dtype."""
        if value.python_type() is TensorDescriptor:
            fields = [self._argument(name, value.var_getattr(self.tx, field)) for field in FIELDS]
            return Group(descriptor, tuple(fields), "descriptor")
        if name in self.constants:
            return Constant(value.as_python_constant())
        kind = value.python_type().__name__
        _refuse(self.kernel, f"argument {name!r} is a {kind}, which is no tensor and no number")

    def _check_autograd(self, arguments: dict[str, Argument], written: frozenset[str]) -> None:
        """Refuse a kernel that writes a tensor whose gradient autograd would compute."""
        if not torch.is_grad_enabled():
            return
        nodes = {operand.index: node for node, operand in self._tensors.items()}
        for name in sorted(written & arguments.keys()):
            for operand in operands_of(arguments[name]):
                node = nodes.get(operand.index)
                if node is not None and node.meta["example_value"].requires_grad:
                    _refuse(
                        self.kernel,
                        f"it writes {name!r}, which requires a gradient, and autograd does not see "
                        "it; pass x.detach(), launch under torch.no_grad(), or give the function "
                        "that launches it a backward by tile.torch.op",
                    )

    # -- the grid

    def _grid(self, grid: Any, config: Any) -> Any:
        """Return the grid, which a function computes from all arguments."""
        grid = grid.realize()
        if isinstance(grid, BaseListVariable | SymNodeVariable | ConstantVariable):
            return grid
        return grid.call_function(self.tx, [self._meta(config)], {}).realize()

    def _meta(self, config: Any) -> Any:
        """Return the argument of a grid function: all parameters and options by name."""
        defaults = {p.name: p.default for p in innermost(self.kernel).parameters if not p.required}
        chosen = {} if config is None else config.all_kwargs()
        constants = {**OPTION_DEFAULTS, **defaults, **chosen}
        values = {**{name: self._build(value) for name, value in constants.items()}, **self.named}
        for name, rule in rules(self.kernel).items():
            function = variables.UserFunctionVariable(rule)
            values[name] = function.call_function(self.tx, [self._dict(values)], {})
        return self._dict(values)

    def _build(self, value: Any) -> VariableTracker:
        built: VariableTracker = VariableTracker.build(self.tx, value)
        return built

    def _dict(self, values: dict[str, VariableTracker]) -> VariableTracker:
        return ConstDictVariable({self._build(n): v for n, v in values.items()}, dict)

    def _extents(self, grid: Any) -> list[VariableTracker]:
        """Return the three extents of a grid."""
        axes = [axis.realize() for axis in getattr(grid, "items", None) or [grid]]
        if not 1 <= len(axes) <= AXES:
            _refuse(self.kernel, f"a grid has one to three axes, and this one {len(axes)}")
        for number, axis in enumerate(axes):
            constant = axis.as_python_constant() if axis.is_python_constant() else None
            if not isinstance(constant, int) and not isinstance(axis, SymNodeVariable):
                _refuse(
                    self.kernel,
                    f"axis {number} of its grid is {_described(axis)}; the grid of a traced launch "
                    "is computed from shapes and numbers, not from the data of tensors",
                )
        return [*axes, *(ConstantVariable.create(1) for _ in range(AXES - len(axes)))]


def _fits(number: int | float) -> bool:
    """Return True if PyTorch's dispatcher can pass a number; its integers have 64 bits."""
    return not isinstance(number, int) or -(2**63) <= number < 2**63


def _described(value: Any) -> str:
    return "a tensor" if value.is_tensor() else f"a {value.python_type().__name__}"
