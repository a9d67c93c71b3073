"""The public names, as ``api.pyi`` beside this file lists them; ``import diffgen`` has the same.

What is heavy (torch, pymoo, ...) is imported when a name is first used: ``import diffgen`` stays quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("diffgen", __file__)
