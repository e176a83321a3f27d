"""The matrix products of our PI step in PyTorch: the same shapes, each with operands and a result of its own."""

import torch
from case import Case

torch.set_num_threads(1)


class Products:
    def __init__(self, path, kind):
        self.operands = [self._operands(*product) for product in Case(path).products]

    def first(self):
        self.run(1)
        return {}

    def run(self, steps):
        for _ in range(steps):
            for left, right, out in self.operands:
                torch.mm(left, right, out=out)

    def _operands(self, left, right, numbers):
        """As rows x shared and shared x columns; a transposed one keeps its layout in memory, as it does in ours."""
        (on_left, on_right), _ = numbers
        if not on_left:  # an outer product shares nothing
            left, on_left, right, on_right = [*left, 1], [len(left)], [1, *right], [0]
        left, right = torch.randn(left).movedim(on_left, [-1]), torch.randn(right).movedim(on_right, [0])
        left, right = left.reshape(-1, left.shape[-1]), right.reshape(len(right), -1)
        return left, right, torch.empty(len(left), right.shape[1])
