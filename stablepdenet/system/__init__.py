"""The machine: cores, signals, and where compiled programs are kept. Nothing here imports jax at the top."""
