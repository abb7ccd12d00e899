"""Functions whose source cannot be read, or is not that of a compilable function; and compile_function."""

from __future__ import annotations

import functools
import linecache
import textwrap

import pytest

import tile.language as tl
from tests.frontend.building import INTS, PTR, module_of, refusal, text_of
from tile.errors import ArgumentTypeError, CompilationError
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.parameters import Argument
from tile.ir.types import F32, I32, Pointer, Tile


def error_of(fn):
    with pytest.raises(CompilationError) as caught:
        DeviceFunction(fn).source
    return caught.value


def executed(text, file="<nowhere>"):
    namespace = {"tl": tl}
    exec(compile(textwrap.dedent(text), file, "exec"), namespace)
    return namespace


def test_a_lambda():
    error = error_of(lambda out: out)
    assert error.message == "a lambda cannot be compiled; write a function with `def`"
    assert error.loc.file == __file__ and "lambda out: out" in str(error)


def test_async_functions():
    async def kernel(out):
        pass

    async def generator(out):
        yield out

    assert "`kernel` is an `async` function" in error_of(kernel).message
    assert "`generator` is an `async` function" in error_of(generator).message


def test_methods():
    class Kernels:
        def method(self, out):
            pass

        @staticmethod
        def free(out):
            tl.store(out, 1)

    assert "is a method, which cannot be compiled; move it out" in error_of(Kernels.method).message
    assert "store" in text_of(Kernels.free, INTS)
    with pytest.raises(ArgumentTypeError, match="is a method, which cannot be compiled"):
        DeviceFunction(Kernels().method)


def in_a_file(out):
    tl.store(out, 1)


class CannotBeShown:
    def __repr__(self):
        raise RuntimeError("no")


class CanBeCalled(CannotBeShown):
    def __call__(self, out):
        tl.store(out, 1)


@pytest.mark.parametrize(
    "thing, message",
    [
        (CannotBeShown(), "only a Python function can be compiled, not <CannotBeShown object"),
        (CanBeCalled(), "an object of class CanBeCalled cannot be compiled, though it can be"),
        (functools.partial(in_a_file, 3), "a functools.partial of `in_a_file` cannot be"),
        (functools.cache(in_a_file), "a _lru_cache_wrapper around `in_a_file` cannot be compiled"),
        (staticmethod(in_a_file), "`in_a_file` is a staticmethod, which cannot be compiled; write"),
        (classmethod(in_a_file), "`in_a_file` is a classmethod, which cannot be compiled; move"),
        ("x" * 10**6, "only a Python function can be compiled, not 'xxx"),
        (3, "only a Python function can be compiled, not 3"),
        (print, "`print` has no source in Python to compile"),
        (int, "`int` is a class, which cannot be compiled"),
        (DeviceFunction(executed), "`executed` is compiled already; decorate it once"),
    ],
)
def test_what_is_no_function(thing, message):
    with pytest.raises(ArgumentTypeError) as caught:
        DeviceFunction(thing)
    assert caught.value.message.startswith(message)
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "claim", [{"__signature__": 3}, {"__wrapped__": 3}, {"__wrapped__": print}]
)
def test_parameters_are_those_of_the_source_whatever_attributes_claim(claim):
    def kernel(out, value=3, *, scale: tl.constexpr = 2):
        tl.store(out, value * scale)

    vars(kernel).update(claim)
    assert [p.name for p in DeviceFunction(kernel).parameters] == ["out", "value", "scale"]
    assert "value = 6" in text_of(kernel, INTS)


def test_a_source_that_is_nowhere():
    fn = executed("def kernel(out):\n    pass\n")["kernel"]
    error = error_of(fn)
    assert error.message.startswith(
        "the source of `kernel` cannot be read (could not get source code)"
    )
    assert "file or notebook cell" in error.message
    assert (error.loc.file, error.loc.line) == ("<nowhere>", 1)


def test_a_file_that_changed(tmp_path):
    file = tmp_path / "changing.py"
    file.write_text("def kernel(out):\n    pass\n")
    fn = executed(file.read_text(), str(file))["kernel"]
    for other in ("def other(out):\n    pass\n", "def kernel(other):\n    pass\n"):
        file.write_text(other)
        linecache.clearcache()
        assert "the file has changed since it was imported" in error_of(fn).message


AT_THE_MARGIN = """\
def make(tl):
    def kernel(out):
        '''A docstring
that is not indented.'''
# and a comment that is not
        tl.store(out, 3)
    return kernel
"""


def test_an_indented_function_with_text_at_the_margin(tmp_path):
    file = tmp_path / "margin.py"
    file.write_text(AT_THE_MARGIN)
    module = module_of(executed(AT_THE_MARGIN, str(file))["make"](tl), INTS)
    store = next(op for op in module.walk() if op.name == "store")
    assert (store.loc.line, store.loc.column, store.loc.end_column) == (6, 8, 24)


def test_a_wrapper_is_not_taken_for_what_it_wraps():
    def inner(out):
        tl.store(out, 1)

    @functools.wraps(inner)
    def wrapper(out):
        tl.store(out, 2)

    assert "value = 2" in text_of(wrapper, INTS)


def test_decorators_are_passed_over():
    def keep(fn):
        return fn

    @keep
    @keep
    def kernel(out):
        tl.store(out, 3)

    function = DeviceFunction(kernel)
    assert function.loc.line == kernel.__code__.co_firstlineno + 2
    assert function.source.text.startswith("@keep\n@keep\ndef kernel")
    assert module_of(function, INTS).kernel.loc == function.loc


def test_decorators_assign_no_names_of_the_function():
    def chosen(value):
        return lambda fn: fn

    @chosen(value := 3)
    def kernel(out):
        tl.store(out, 1)

    source = DeviceFunction(kernel).source
    assert value == 3 and not source.assigned_in(source.node)


def test_facts_without_the_source():
    fn = executed("def f(a, b: tl.constexpr, c: 'tl.constexpr' = 3, *, d=4): pass")["f"]
    function = DeviceFunction(fn)
    assert [(p.name, p.is_constexpr, p.required) for p in function.parameters] == [
        ("a", False, True),
        ("b", True, True),
        ("c", True, False),
        ("d", False, False),
    ]
    assert (function.name, function.__name__, function.noinline) == ("f", "f", False)


# -- compile_function


def kernel(xs, n, out, SIZE: tl.constexpr, scale=2):
    first, (second, third) = xs
    tl.store(out, first * second + n * scale + SIZE)
    tl.static_assert(third == "text")


def compiled(types, constants, **more):
    return compile_function(DeviceFunction(kernel), types, constants, **more)


def test_tuples_of_arguments_are_flattened_and_claims_are_preserved():
    module = compiled(
        {"xs": (I32, (I32, "text")), "n": I32, "out": INTS},
        {"SIZE": 4},
        attributes={"out": Argument(16, noalias=True), "xs.1.0": Argument(8)},
    )
    assert [value.name for value in module.kernel.args] == ["xs.0", "xs.1.0", "n", "out"]
    assert [a.divisible for a in module.kernel.arguments] == [1, 8, 1, 16]
    assert [a.noalias for a in module.kernel.arguments] == [False, False, False, True]
    assert (module.kernel.kernel, module.kernel.result_types) == (True, ())


def test_constants_may_be_wrapped_or_numpy_s():
    import numpy as np

    types = {"xs": (I32, (I32, "text")), "out": INTS}
    module = compiled(types, {"SIZE": tl.constexpr(4), "n": np.int64(3), "scale": tl.constexpr(5)})
    values = [op["value"] for op in module.walk() if op.name == "const"]
    assert 15 in values and 4 in values


@pytest.mark.parametrize(
    "types, constants, message",
    [
        ({"n": I32, "out": INTS}, {"SIZE": 4}, "`kernel` needs an argument for `xs`"),
        ({"xs": I32, "n": I32, "out": INTS}, {}, "`kernel` needs an argument for `SIZE`"),
        ({"xs": I32, "n": I32, "out": INTS, "SIZE": I32}, {}, "`SIZE` of `kernel` is tl.constexpr"),
        ({"SIZES": I32}, {}, "`kernel` has no parameter `SIZES`; did you mean `SIZE`?"),
        (
            {"xs": Tile((4,), F32), "n": I32, "out": INTS},
            {"SIZE": 4},
            "a kernel takes scalars and pointers",
        ),
    ],
)
def test_arguments_that_do_not_fit(types, constants, message):
    with pytest.raises(ArgumentTypeError) as caught:
        compiled(types, constants)
    assert caught.value.message.startswith(message)


def test_pointers_to_pointers_are_arguments():
    def indirect(table, out):
        row = tl.load(table + 1)
        tl.store(out, tl.load(row))

    assert "load %v_1 : ptr<f32>" in text_of(indirect, Pointer(PTR), PTR)


def test_an_error_in_a_kernel_leaves_nothing_behind():
    def broken(out, a):
        tl.store(out, missing)  # noqa: F821

    first, second = refusal(broken, INTS, I32), refusal(broken, INTS, I32)
    assert str(first) == str(second)
