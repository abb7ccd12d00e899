"""Torch tensors as arrays, without importing torch: the caller has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.device_arrays import Array, DeviceArray, DType
from tile.runtime.launch_hooks import NoLaunches, active_observer

# Types that torch cannot convert to NumPy: the integer type of that width, and the NumPy dtype.
BITS: dict[str, tuple[str, DType]] = {
    "bfloat16": ("int16", np.dtype(ml_dtypes.bfloat16)),
    "float8_e4m3fn": ("uint8", np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2": ("uint8", np.dtype(ml_dtypes.float8_e5m2)),
    "float8_e4m3fnuz": ("uint8", np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8_e5m2fnuz": ("uint8", np.dtype(ml_dtypes.float8_e5m2fnuz)),
}

# Classes of tensors that stand for others while PyTorch traces a program.
TRACED = frozenset({"FakeTensor", "FunctionalTensor"})


def is_torch(kind: type) -> bool:
    """Return True if `kind` is torch's tensor, a subclass, or another type of torch."""
    return any(str(base.__module__).partition(".")[0] == "torch" for base in kind.__mro__)


def is_plain_tensor(kind: type) -> bool:
    """Return True if `kind` is exactly torch's class of tensors or of parameters.

    Then `data_ptr()` returns the address of its elements, or raises `RuntimeError` if it has no
    plain memory.
    """
    torch = sys.modules.get("torch")
    return torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter)


def only_cuda_numbered() -> bool:
    """Return True if `tensor.get_device()` identifies the device of a tensor.

    It returns the number of an accelerator of any kind, and a negative number for host memory and
    for no memory. A process has one kind of accelerator, which torch can name.
    """
    accelerator = getattr(sys.modules.get("torch"), "accelerator", None)
    kind = None if accelerator is None else accelerator.current_accelerator()
    return kind is not None and kind.type == "cuda"


TensorGuard = Callable[..., bool]
"""Returns True for tensors like those for which it was made: see `tensor_guard`."""


def tensor_guard(tensors: Sequence[Any]) -> TensorGuard | None:
    """Return a function that compares as many tensors with some; None if PyTorch has none.

    It returns True only if classes, dtypes, devices, shapes and strides are equal. It is a guard of
    `torch.compile`, in C++, and also compares what no kernel depends on.
    """
    if not tensors or not all(map(is_plain_tensor, {*map(type, tensors)})):
        return None
    guards = getattr(getattr(_torch()._C, "_dynamo", None), "guards", None)
    if guards is None:
        return None
    static = {"dynamic_dims_sizes": None, "dynamic_dims_strides": None}
    check: TensorGuard = guards.TensorGuards(*tensors, **static).check
    return check


def torch_dtype(dtype: Any, label: str) -> DType:
    """Return the NumPy dtype of a torch dtype, or raise `ArgumentTypeError` if there is none."""
    name = str(dtype).removeprefix("torch.")
    if name in BITS:
        return BITS[name][1]
    try:
        return np.dtype(name)
    except TypeError:
        raise ArgumentTypeError(
            f"{label} has dtype {dtype}, which kernels do not support"
        ) from None


def torch_array(tensor: Any, label: str) -> Array | DeviceArray:
    """Return a tensor's memory as a NumPy array on the CPU, else as a `DeviceArray`.

    Autograd does not track it. Raises `ArgumentTypeError` for tensors without plain memory.
    """
    if type(tensor).__name__ == "Proxy":
        raise _traced(tensor, label, "torch.fx")
    if getattr(tensor, "is_nested", False):
        raise ArgumentTypeError(
            f"{label} is a nested tensor of torch; pass one of its parts, of x.unbind(), or "
            "x.to_padded_tensor(0)"
        )
    if _is_transformed(tensor):
        raise ArgumentTypeError(
            f"{label} is a tensor inside of a transformation, such as torch.vmap or "
            "torch.func.grad, which does not see into a launch",
            notes=["launch the kernel in an operator of tile.torch.op, to which it applies"],
        )
    if str(tensor.layout) != "torch.strided":
        raise ArgumentTypeError(
            f"{label} is a torch tensor of layout {tensor.layout}; kernels take dense ones: "
            "x.to_dense()"
        )
    if type(tensor).__name__ in TRACED or tensor.device.type == "meta":
        return _without_memory(tensor, label)
    if tensor.device.type == "cpu":
        return _host_view(tensor, label)
    return torch_device_array(tensor, label)


def _without_memory(tensor: Any, label: str) -> DeviceArray:
    """Return an array that stands for a tensor without memory where no launch is made, or raise."""
    if isinstance(active_observer(), NoLaunches):
        dtype = torch_dtype(tensor.dtype, label)
        return DeviceArray(
            source=tensor,
            device=str(tensor.device),
            dtype=dtype,
            # A symbolic size becomes the number that it is traced for, which PyTorch notes.
            shape=tuple(map(int, tensor.shape)),
            strides=tuple(int(step) * dtype.itemsize for step in tensor.stride()),
            address=0,
            fetch=lambda: np.empty(0, dtype),
            put=lambda values: None,
        )
    if type(tensor).__name__ not in TRACED:
        raise ArgumentTypeError(
            f"{label} is a torch tensor on the meta device, which has no memory"
        )
    raise _traced(tensor, label, "PyTorch")


def _is_transformed(tensor: Any) -> bool:
    """Return True for what a transformation of torch.func has in place of a tensor."""
    functorch = getattr(getattr(_torch(), "_C", None), "_functorch", None)
    return functorch is not None and bool(functorch.is_functorch_wrapped_tensor(tensor))


def _traced(tensor: Any, label: str, tracer: str) -> ArgumentTypeError:
    """Return the error for an object that stands for a tensor while a program is traced."""
    return ArgumentTypeError(
        f"{label} is a {type(tensor).__name__}, with which {tracer} traces a program, and has no "
        "memory",
        notes=[
            "launch the kernel in a function that torch.compile compiles, or in an operator of "
            "tile.torch.op, which PyTorch traces as a whole"
        ],
    )


def torch_device_array(tensor: Any, label: str) -> DeviceArray:
    """Return a tensor on any device as a `DeviceArray`."""
    plain = tensor.detach()
    dtype = torch_dtype(plain.dtype, label)
    bits = _bits(plain)

    def fetch() -> Array:
        host: Array = bits.cpu().numpy().view(dtype)
        return host

    def put(values: Array) -> None:
        flat = np.ascontiguousarray(values).reshape(values.shape)
        whole = result.once()
        bits[whole].copy_(_torch().from_numpy(flat.view(_numpy_bits(plain, dtype)))[whole])

    result = DeviceArray(
        source=tensor,
        device=str(plain.device),
        dtype=dtype,
        shape=tuple(plain.shape),
        strides=tuple(step * dtype.itemsize for step in plain.stride()),
        address=plain.data_ptr(),
        fetch=fetch,
        put=put,
    )
    return result


def _host_view(tensor: Any, label: str) -> Array:
    plain = tensor.detach()
    name = str(plain.dtype).removeprefix("torch.")
    try:
        if name in BITS:
            bits: Array = _bits(plain).numpy().view(BITS[name][1])
            return bits
        array: Array = plain.numpy()
    except (RuntimeError, TypeError) as error:
        raise ArgumentTypeError(
            f"{label} is a torch tensor that is not a plain array: {error}"
        ) from error
    return array


def _bits(tensor: Any) -> Any:
    """Return the same memory as integers, for types that NumPy does not support."""
    name = str(tensor.dtype).removeprefix("torch.")
    return tensor.view(getattr(_torch(), BITS[name][0])) if name in BITS else tensor


def _numpy_bits(tensor: Any, dtype: DType) -> DType:
    name = str(tensor.dtype).removeprefix("torch.")
    return np.dtype(BITS[name][0]) if name in BITS else dtype


def _torch() -> Any:
    return sys.modules["torch"]
