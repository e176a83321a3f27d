"""Label-free neural PDE operators that stay right under noisy, unseen and hostile inputs.

The public names stand in `__init__.pyi`; each is imported when first used, so that the command line starts at once.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
