"""The sanitizer: runs with checks. They have a translation of their own; other runs pay nothing.

- `poison.py`: poison, that is, which elements of a value are undefined or derived from arithmetic
  that wrapped. A value without poison is held as a plain array or `Affine`, so it costs one check
  of its type.
- `overflow.py`: the operations that wrap.
- `poison_sources.py`: all operations that create poison; `propagation.py`: its propagation through
  operations and the regions of reductions and scans.
- `access.py`: checks of every access: bounds, and operands that poison must not reach.
- `happens_before.py`: the happens-before relation; `shadow_memory.py`: the last accesses to each
  element, for races (`race_records.py`), and the state of a launch with checks.
- `rules.py`: loads, stores, atomics, assertions and assumptions.
- `launch.py`: the translation, the executor, which checks conditions, and the launch.
"""
