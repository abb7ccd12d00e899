"""The sanitizer: runs with checks. They have a translation of their own; other runs pay nothing.

- `translate.py`: instructions that propagate poison, and those that report faults.
- `marked.py`, `propagate.py`: poison, that is, which elements of a value are undefined or derived
  from arithmetic that wrapped; and its propagation through operations. A value without poison is
  held as a plain array or `Affine`, so it costs one check of its type.
- `sources.py`: the operations that create poison.
- `access.py`, `rules.py`: loads, stores and atomics: bounds, and uses that poison must not reach.
- `shadow.py`, `order.py`: shadow memory with the last accesses, and the happens-before relation.
- `launch.py`: a run with checks; `machine.py`: an executor that checks conditions.
"""
