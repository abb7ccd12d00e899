"""A package `triton` that the views of `tile.compat` replace.

Python finds it in processes whose `PYTHONPATH` begins with the folder above, as in those that
`tile triton` starts, and takes from `sys.modules` the module that replaces it.
"""

import importlib
import sys

from tile.compat import install_announced

del sys.modules[__name__]
install_announced()
importlib.import_module(__name__)
