"""Variables of TorchDynamo for tensor descriptors that a compiled function makes.

A descriptor's fields become arguments of the operator of a launch, which makes the descriptor again
from the real tensor, with all of its checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._dynamo import variables
from torch._dynamo.variables.base import VariableTracker

from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.torch.traced_functions import described, fields

FIELDS = ("base", "shape", "strides", "block_shape", "padding")


class DescriptorVariable(VariableTracker):
    """A tensor descriptor; `fields` has the variables of its `FIELDS`."""

    def __init__(self, fields: Sequence[VariableTracker], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fields = fields

    def python_type(self) -> type:
        return TensorDescriptor

    def var_getattr(self, tx: Any, name: str) -> VariableTracker:
        """Return a field."""
        if name in FIELDS:
            return self.fields[FIELDS.index(name)]
        result: VariableTracker = super().var_getattr(tx, name)
        return result


class DescriptorClassVariable(VariableTracker):
    """The class of tensor descriptors."""

    def python_type(self) -> type:
        return type(TensorDescriptor)

    def as_python_constant(self) -> Any:
        return TensorDescriptor

    def call_function(
        self, tx: Any, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return self._made(tx, fields, args, kwargs)

    def call_method(
        self, tx: Any, name: str, args: Sequence[VariableTracker], kwargs: dict[str, Any]
    ) -> VariableTracker:
        if name == "from_tensor":
            return self._made(tx, described, args, kwargs)
        result: VariableTracker = super().call_method(tx, name, list(args), kwargs)
        return result

    def _made(
        self, tx: Any, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> VariableTracker:
        made = variables.UserFunctionVariable(function).call_function(tx, list(args), kwargs)
        return DescriptorVariable(made.unpack_var_sequence(tx))
