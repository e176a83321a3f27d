"""Reference solvers: exact solution operators, and the paper's finite-difference / pseudo-spectral ones beside them."""
