"""A fingerprint changes if and only if a dependence of the kernel changes."""

from __future__ import annotations

import linecache
import types

import pytest

import tile
import tile.language as tl
from tests.frontend.building import INTS, stored
from tile.errors import CompilationError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.frontend.python.fingerprint import exact_digest, portable_digest
from tile.frontend.python.source import DeviceFunction
from tile.runtime.autotuning.configs import innermost


def fingerprint(function: DeviceFunction) -> str | None:
    return exact_digest(function, ())


FACTOR = tl.constexpr(2)
settings = types.ModuleType("settings")
settings.inner = types.ModuleType("settings.inner")
settings.inner.OFFSET = tl.constexpr(10)
settings.unrelated = 5


@DeviceFunction
def helper(x):
    return x * FACTOR


@DeviceFunction
def kernel(out, a, N: tl.constexpr = 4):
    tl.store(out, helper(a) + settings.inner.OFFSET)


@DeviceFunction
def caller_of_callers(out, a):
    kernel(out, a)


@DeviceFunction
def ping(x):
    return pong(x)


@DeviceFunction
def pong(x):
    return ping(x)


def test_it_is_the_same_for_the_same():
    assert fingerprint(kernel) == fingerprint(kernel) == fingerprint(DeviceFunction(kernel.fn))
    assert len(fingerprint(kernel)) == 64


@DeviceFunction
def of_the_language(out, a):
    tl.store(out, tl.math.exp(tl.load(a)).to(tl.float32))


def test_it_is_the_same_whether_names_of_the_language_were_used_before_or_not(monkeypatch):
    """A process finds on disk what another process stored that had used other names."""
    used = fingerprint(of_the_language)
    for name in ("store", "load", "math", "float32"):
        assert getattr(tl, name) is not None
        monkeypatch.delattr(tl, name)
    assert fingerprint(of_the_language) == used
    assert not {"store", "load", "math", "float32"} & vars(tl).keys(), "nothing was imported"


def test_another_value_in_the_place_of_a_name_of_the_language(monkeypatch):
    before = fingerprint(of_the_language)
    monkeypatch.setattr(tl, "load", tl.store)
    assert fingerprint(of_the_language) != before


def test_it_differs_between_functions_and_flags():
    every = [kernel, helper, caller_of_callers, DeviceFunction(kernel.fn, noinline=True)]
    assert len({fingerprint(f) for f in every}) == len(every)


@pytest.mark.parametrize("function", [kernel, caller_of_callers])
@pytest.mark.parametrize(
    "owner, name, value",
    [
        (globals(), "FACTOR", tl.constexpr(3)),
        (globals(), "FACTOR", tl.constexpr(2.0)),
        (globals(), "helper", DeviceFunction(ping.fn)),
        (vars(settings.inner), "OFFSET", tl.constexpr(11)),
    ],
)
def test_it_follows_captured_values(function, owner, name, value, monkeypatch):
    before = fingerprint(function)
    assert before is not None
    monkeypatch.setitem(owner, name, value)
    assert fingerprint(function) not in (None, before)
    monkeypatch.undo()
    assert fingerprint(function) == before


def test_it_does_not_follow_what_is_not_used(monkeypatch):
    before = fingerprint(kernel)
    monkeypatch.setattr(settings, "unrelated", 6)
    monkeypatch.setitem(globals(), "ping", None)
    assert fingerprint(kernel) == before


CONFIGS = [tile.Config({"N": 4})]


def of(text: str) -> str | None:
    """Return the fingerprint of a function with this text."""
    space = {"tile": tile, "tl": tl, "CONFIGS": CONFIGS, "__name__": "made"}
    lines = [f"{line}\n" for line in text.splitlines()]
    file = f"<{hash(text)}>"
    linecache.cache[file] = (len(text), None, lines, file)
    exec(compile(text, file, "exec"), space)
    return portable_digest(innermost(space["copy"]))


def test_it_does_not_follow_decorators():
    """Kernels whose configurations have a name are cached, and may get others."""
    body = "def copy(out, a, N: tl.constexpr):\n    tl.store(out, tl.load(a) + N)\n"
    plain = of(f"@tile.jit\n{body}")
    assert plain is not None
    assert of(f"@tile.autotune(CONFIGS, key=[])\n@tile.jit\n{body}") == plain
    assert of(f"@tile.autotune([tile.Config({{'N': 8}})], key=[])\n@tile.jit\n{body}") == plain
    assert of(f"@tile.jit\n{body.replace('+', '-')}") != plain


def test_it_follows_closures_and_defaults():
    def make(factor, default):
        def inner(out, a, n=default):
            tl.store(out, a * factor + n)

        return DeviceFunction(inner)

    one = make(tl.constexpr(1), 5)
    assert fingerprint(one) == fingerprint(make(tl.constexpr(1), 5))
    others = [make(tl.constexpr(2), 5), make(tl.constexpr(1), 6), make(tl.constexpr(1), 5.0)]
    assert len({fingerprint(f) for f in (one, *others)}) == 4
    assert stored(one, 3) == [8]


def test_it_follows_functions_that_run_at_compile_time(monkeypatch):
    @constexpr_function
    def doubled(x):
        return x * base  # noqa: F821  # noqa: F821

    @DeviceFunction
    def uses(out):
        tl.store(out, tripled(3))  # noqa: F821  # noqa: F821

    monkeypatch.setitem(globals(), "tripled", doubled)
    monkeypatch.setitem(globals(), "base", 2)
    before = fingerprint(uses)
    assert stored(uses.fn) == [6]
    monkeypatch.setitem(globals(), "base", 3)
    assert fingerprint(uses) not in (None, before)


def test_it_ends_for_functions_that_call_each_other():
    assert fingerprint(ping) != fingerprint(pong)


def test_it_needs_the_source():
    namespace = {}
    exec("def nowhere(out):\n    pass\n", namespace)
    with pytest.raises(CompilationError, match="cannot be read"):
        fingerprint(DeviceFunction(namespace["nowhere"]))


def test_values_have_distinct_texts():
    values = [
        1,
        1.0,
        True,
        "1",
        None,
        (1,),
        [1],
        tl.float32,
        tl.float16,
        tl.constexpr(1),
        helper,
        kernel,
    ]
    assert len({exact_digest(kernel, value) for value in values}) == len(values)
    assert exact_digest(kernel, 0.1) != exact_digest(kernel, 0.1 + 1e-17 + 1e-16)
    assert INTS is not None
