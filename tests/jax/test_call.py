"""`tile.jax.call`, at once and in programs that JAX compiles, on the interpreter."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tile
from tests.jax import kernels
from tile.errors import ArgumentTypeError, ArgumentValueError, OutOfBoundsError
from tile.runtime.kernel import CompiledKernel

jax = pytest.importorskip("jax")
importlib.import_module("tile.jax")
jnp = jax.numpy

ROOT = Path(__file__).parents[2]
BLOCK = 64


@pytest.fixture(params=["at once", "jit"])
def compiled(request):
    """A decorator by which a function runs at once, or in a compiled program."""
    return jax.jit if request.param == "jit" else lambda function: function


def blocks(x) -> tuple[int]:
    return (tile.cdiv(x.size, BLOCK),)


def scale(x, factor=2.0):
    return tile.jax.call(
        x,
        kernel=kernels.scale,
        out_shape={"out_ptr": x},
        grid=blocks(x),
        n=x.size,
        factor=factor,
        BLOCK=BLOCK,
    )["out_ptr"]


def equal(result, expected) -> None:
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint8"])
def test_types(compiled, dtype) -> None:
    x = jnp.arange(100).astype(dtype)
    result = compiled(lambda x: scale(x, 2))(x)
    assert result.dtype == x.dtype
    equal(result, x * 2)


def test_boolean_and_8_bit_floats(compiled) -> None:
    for x in (jnp.arange(8) % 3 == 0, jnp.arange(8).astype(jnp.float8_e4m3fn)):
        equal(compiled(copied)(x), x)


def copied(x):
    return tile.jax.call(x, kernel=kernels.copy, out_shape=x, grid=1, BLOCK=8)


def test_in_the_middle_of_a_program(compiled) -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    equal(compiled(lambda x: scale(x.T + 1).sum(0))(x), ((x.T + 1) * 2).sum(0))


def test_no_elements(compiled) -> None:
    x = jnp.zeros((0, 3))
    equal(compiled(scale)(x), x)


# -- the structures of the outputs


@pytest.mark.parametrize("kind", [list, tuple])
def test_outputs_after_the_arguments(compiled, kind) -> None:
    """As jax_triton.triton_call has them."""

    def function(x, y):
        return tile.jax.call(
            x,
            y,
            kernel=kernels.add_and_subtract,
            out_shape=kind([jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2),
            grid=lambda meta: (tile.cdiv(meta["n"], meta["BLOCK"]),),
            n=x.size,
            BLOCK=BLOCK,
            num_warps=1,
        )

    x, y = jnp.arange(100.0), jnp.ones(100)
    result = compiled(function)(x, y)
    assert type(result) is kind
    for one, expected in zip(result, (x + y, x - y), strict=True):
        equal(one, expected)


def test_outputs_by_name(compiled) -> None:
    def function(x, y):
        shapes = {"difference_ptr": x, "sum_ptr": x}
        return tile.jax.call(
            x, y, kernel=kernels.add_and_subtract, out_shape=shapes, grid=2, n=x.size, BLOCK=BLOCK
        )

    x, y = jnp.arange(100.0), jnp.ones(100)
    result = compiled(function)(x, y)
    assert list(result) == ["difference_ptr", "sum_ptr"]
    equal(result["sum_ptr"], x + y)
    equal(result["difference_ptr"], x - y)


def test_a_tuple_of_arrays(compiled) -> None:
    def function(x, y):
        return tile.jax.call(
            (x, y), kernel=kernels.sum_of, out_shape=x, grid=blocks(x), n=x.size, BLOCK=BLOCK
        )

    x = jnp.arange(100.0)
    equal(compiled(function)(x, x + 1), x + x + 1)


# -- what outputs start as


def total(x, **start):
    return tile.jax.call(
        x,
        kernel=kernels.accumulate,
        out_shape=jax.ShapeDtypeStruct((), x.dtype),
        grid=blocks(x),
        n=x.size,
        BLOCK=BLOCK,
        **start,
    )


def test_zeroed_outputs(compiled) -> None:
    x = jnp.ones(100)
    assert compiled(lambda x: total(x, zeroed_outputs=(0,)))(x) == 100
    by_name = {"out_shape": {"total_ptr": x[0]}, "zeroed_outputs": "total_ptr"}
    function = compiled(
        lambda x: tile.jax.call(
            x, kernel=kernels.accumulate, grid=blocks(x), n=x.size, BLOCK=BLOCK, **by_name
        )
    )
    assert function(x)["total_ptr"] == 100


def test_an_argument_that_is_an_output_too(compiled) -> None:
    def function(x):
        result = tile.jax.call(
            x,
            x.size,
            kernel=kernels.increment,
            out_shape={"x_ptr": x},
            grid=blocks(x),
            BLOCK=BLOCK,
        )
        return result["x_ptr"], x

    x = jnp.arange(100.0)
    result, unchanged = compiled(function)(x)
    equal(result, np.arange(100) + 1)
    equal(unchanged, np.arange(100))


def test_aliases_as_in_jax_triton(compiled) -> None:
    """The kernel gets the input and the output, which are the same memory."""

    def function(x):
        return tile.jax.call(
            x,
            kernel=kernels.increment_into,
            out_shape=x,
            grid=blocks(x),
            input_output_aliases={0: 0},
            n=x.size,
            BLOCK=BLOCK,
        )

    x = jnp.arange(100.0)
    equal(compiled(function)(x), np.arange(100) + 1)
    equal(x, np.arange(100))


# -- transformations


def test_vmap(compiled) -> None:
    x = jnp.arange(60.0).reshape(3, 20)
    equal(compiled(jax.vmap(scale))(x), x * 2)
    equal(compiled(jax.vmap(scale, in_axes=1, out_axes=1))(x), x * 2)


def test_a_gradient_is_given_by_custom_vjp(compiled) -> None:
    @jax.custom_vjp
    def tripled(x):
        return scale(x, 3.0)

    tripled.defvjp(lambda x: (tripled(x), None), lambda _, grad: (scale(grad, 3.0),))
    x = jnp.arange(100.0)
    equal(compiled(jax.grad(lambda x: tripled(x).sum()))(x), jnp.full(100, 3.0))


def test_no_gradient(compiled) -> None:
    message = r"JAX cannot differentiate scale\(\); .*jax.custom_vjp"
    with pytest.raises(ArgumentValueError, match=message):
        jax.grad(lambda x: compiled(scale)(x).sum())(jnp.ones(3))
    jax.grad(lambda x: scale(jax.lax.stop_gradient(x)).sum() + x.sum())(jnp.ones(3))


def test_loops_and_branches() -> None:
    @jax.jit
    def function(x):
        x = jax.lax.fori_loop(0, 3, lambda _, x: scale(x), x)
        return jax.lax.cond(x[1] > 7, scale, lambda x: x, x)

    equal(function(jnp.arange(5.0)), jnp.arange(5.0) * 16)


def test_a_number_is_a_constant_of_the_program() -> None:
    traces = []

    @jax.jit
    def function(x):
        traces.append(x.shape)
        return scale(x, 3.0)

    for n in (5, 5, 6, 5):
        equal(function(jnp.ones(n)), jnp.full(n, 3.0))
    assert traces == [(5,), (6,)]


# -- tuners


def test_tuners_and_rules(compiled) -> None:
    rules = {"BLOCK": lambda arguments: tile.next_power_of_2(arguments["n"])}
    for kernel in (
        tile.autotune([tile.Config({"BLOCK": 32}), tile.Config({"BLOCK": 64})], key=["n"])(
            kernels.scale
        ),
        tile.heuristics(rules)(kernels.scale),
    ):
        x = jnp.arange(100.0)

        def function(x, kernel=kernel):
            return tile.jax.call(
                x,
                kernel=kernel,
                out_shape={"out_ptr": x},
                grid=lambda meta: (tile.cdiv(100, meta["BLOCK"]),),
                n=x.size,
                factor=2.0,
            )["out_ptr"]

        equal(compiled(function)(x), x * 2)


# -- settings and programs on disk


def test_settings_are_those_of_the_trace(monkeypatch) -> None:
    targets = []
    run = CompiledKernel.execute

    def execute(kernel, *arguments):
        targets.append(str(kernel.target))
        run(kernel, *arguments)

    monkeypatch.setattr(CompiledKernel, "execute", execute)
    functions = [jax.jit(lambda x: scale(x)) for _ in range(2)]
    with tile.backend("interp:mma"):
        functions[0](jnp.ones(10)).block_until_ready()
    for function in functions:
        function(jnp.ones(10)).block_until_ready()
    assert targets == ["interp:mma", "interp:mma", "interp"]


PROGRAM = """
import sys
import jax
from tests.jax.test_call import scale

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
for factor in sys.argv[2:]:
    print(jax.jit(scale, static_argnums=1)(jax.numpy.ones(3), float(factor)))
"""


def test_programs_that_jax_stores_on_disk(tmp_path) -> None:
    """They name launches by content: in another order they are still the same."""
    for factors, output in (("2 3", "[2. 2. 2.]\n[3. 3. 3.]\n"), ("3", "[3. 3. 3.]\n")):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), *factors.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.stdout == output, done.stderr


# -- errors


def call(x, **changes):
    arguments = {
        "kernel": kernels.scale,
        "out_shape": {"out_ptr": x},
        "grid": (1,),
        "n": 3,
        "factor": 2.0,
        "BLOCK": 4,
    }
    return tile.jax.call(x, **{**arguments, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": print}, "takes a kernel, made by tile.jit, not"),
        ({"out_shape": 3}, r"out_shape is 3; it is an object with a shape and a dtype"),
        ({"out_shape": []}, "out_shape is"),
        ({"out_shape": ["x"]}, "out_shape is"),
        ({"out_shape": {"out": jnp.ones(3)}}, r"scale\(\) has no parameter 'out'"),
        ({"out_shape": {"n": jnp.ones(3)}}, "output 'n' of .* was passed as 3, which is no array"),
        ({"out_shape": [jnp.ones(3)] * 6}, r"has 5 parameters, and 1 arguments with 6 outputs"),
        ({"x_ptr": jnp.ones(3)}, "got 'x_ptr' twice"),
        ({"out_shape": np.ones(3)}, "needs 64 bits.*jax_enable_x64"),
        ({"input_output_aliases": {1: 0}}, "names array 1, and 1 are passed"),
        ({"input_output_aliases": {0: 1}}, "names output 1; there are out_ptr"),
        (
            {"out_shape": {"out_ptr": jnp.ones(4)}, "input_output_aliases": {0: 0}},
            r"output 0 of scale\(\) is float32\[4\], and the array that it starts as is float32\[3",
        ),
        ({"zeroed_outputs": ["x"]}, "zeroed_outputs names output 'x'; there are out_ptr"),
        ({"zeroed_outputs": [0, 0]}, "output 0 of .* would start as two arrays"),
        ({"BLOCK": 0}, "its end, 0, is not above its start"),
        ({"color": 1}, "has no parameter 'color'"),
        ({"grid": "x"}, "a grid is made of integers"),
    ],
)
def test_errors(compiled, changes, message) -> None:
    with pytest.raises(tile.errors.TileError, match=message):
        compiled(lambda x: call(x, **changes))(jnp.ones(3))


def test_a_kernel_that_writes_an_input(compiled) -> None:
    message = r"copy_back\(\) writes 'x_ptr', which is an input, and arrays of JAX are immutable"
    with pytest.raises(ArgumentValueError, match=message) as info:
        compiled(
            lambda x: tile.jax.call(x, kernel=kernels.copy_back, out_shape=x, grid=1, BLOCK=4)
        )(jnp.ones(3))
    assert "out_shape={'x_ptr': x}" in info.value.notes[0]


def test_an_output_that_no_kernel_writes(compiled) -> None:
    message = r"scale\(\) does not write 'x_ptr', which is an output"
    with pytest.raises(ArgumentValueError, match=message):
        compiled(
            lambda x: tile.jax.call(
                kernel=kernels.scale,
                out_shape={"x_ptr": x, "out_ptr": x},
                grid=1,
                n=3,
                factor=2.0,
                BLOCK=4,
            )
        )(jnp.ones(3))


def fault(x):
    return tile.jax.call(x, kernel=kernels.out_of_bounds, out_shape=x, grid=1, n=2, BLOCK=8)


def test_a_fault_of_a_kernel() -> None:
    x = jnp.ones(8)
    with pytest.raises(OutOfBoundsError, match="x_ptr"):
        fault(x)
    line = kernels.out_of_bounds.starting_line_number + 3
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"OutOfBoundsError(.|\n)*py:{line}"):
        jax.block_until_ready(jax.jit(fault)(x))


def test_a_launch_in_place_of_a_call() -> None:
    x = jnp.ones(3)
    message = "'out_ptr' of scale.* is read-only(.|\n)*JAX's arrays are; tile.jax.call returns new"
    with pytest.raises(ArgumentValueError, match=message):
        kernels.scale[1,](x, x, 3, 2.0, BLOCK=4)
    message = "which stands for an array while JAX traces(.|\n)*call the kernel by tile.jax.call"
    with pytest.raises(ArgumentTypeError, match=message):
        jax.jit(lambda x: kernels.scale[1,](x, x, 3, 2.0, BLOCK=4))(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_launches_read_arrays_in_place(dtype) -> None:
    x = jnp.arange(4).astype(dtype)
    out = np.zeros(4, x.dtype)
    kernels.copy[1,](x, out, BLOCK=4)
    np.testing.assert_array_equal(out, np.asarray(x))
