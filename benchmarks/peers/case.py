"""What every contender starts from: one file with the networks' weights, the batch, the points and the attack."""

import json
from typing import Any, NamedTuple

import numpy as np


class Block(NamedTuple):
    """Points of a residual block, the matrix that takes an input to its values there, and the block's weight."""

    points: Any
    matrix: Any
    weight: float


class Case:
    """One problem's arrays, each passed through `convert` into a library's own kind."""

    def __init__(self, path, convert=np.asarray):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(str(arrays.pop("meta")))
        arrays = {name: convert(array) for name, array in arrays.items()}
        self.problem, self.coordinates, self.rate = meta["problem"], meta["coordinates"], meta["rate"]
        self.blocks = {
            name: Block(arrays[f"{name}.points"], arrays[f"{name}.matrix"], weight)
            for name, weight in meta["weights"].items()
        }
        self.branch, self.trunk = (
            [(arrays[f"{net}.{i}.weight"], arrays[f"{net}.{i}.bias"]) for i in range(meta["depth"])]
            for net in ("branch", "trunk")
        )
        self.bias = arrays["bias"]
        self.clean, self.both = arrays["clean"], arrays["both"]
        self.lambda_sens, self.spread = meta["lambda_sens"], arrays["spread"]
        self.products = meta["products"]
        self.attack = meta["attack"]
        self.start, self.radius = arrays["start"], arrays["radius"]
