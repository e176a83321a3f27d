"""Every array that passes a function of the package is checked against its annotated shape while the tests run."""

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

# Where a float is asked for, an int will do.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
install_import_hook("stablepdenet", "conftest.checked")
