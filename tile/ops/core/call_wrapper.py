"""The function that stands for a planned op: it calls the reader for the types of the arguments.

Readers take all arguments in order (call_keys.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tile.ops.core.generated import execute
from tile.tracebacks import trim

_WRAPPER = """\
def ~call({signature}):
    try:
        ~read = ~readers.get(({kinds}))
        if ~read is None:
            ~read = ~new_reader({passed})
        return ~read({passed})
    except Exception as ~error:
        ~trim(~error)
        raise

def ~ordinary({passed}):
    return ~function({called})
"""


def wrapped(
    function: Callable[..., Any],
    readers: Mapping[tuple[type, ...], Callable[..., Any]],
    new_reader: Callable[..., Any],
) -> tuple[Any, Callable[..., Any]]:
    """Return a function with the signature of an op, and the op with all arguments in order.

    readers: by the types of the arguments. new_reader: returns one for arguments of other types.
    """
    parameters = inspect.signature(function).parameters
    named = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    text = _WRAPPER.format(
        signature=_signature(parameters),
        kinds="".join(f"type({name}), " for name in parameters),
        passed=", ".join(parameters),
        called=", ".join(f"{name}={name}" if name in named else name for name in parameters),
    )
    space = execute(
        text,
        parameters,
        function=function,
        readers=readers,
        new_reader=new_reader,
        trim=trim,
        **{f"d_{p.name}": p.default for p in parameters.values()},
    )
    return space["call"], space["ordinary"]


def _signature(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return the text of a signature whose defaults are variables."""
    words = []
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        has_default = parameter.default is not parameter.empty
        words.append(f"{parameter.name}=~d_{parameter.name}" if has_default else parameter.name)
    return ", ".join(words)
