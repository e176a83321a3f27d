"""The matrix products of our PI step in PyTorch: the same shapes, and one array where ours is one."""

import torch
from case import Case

torch.set_num_threads(1)


class Products:
    def __init__(self, path, kind):
        products = Case(path).products
        shapes = {number: shape for *operands, _ in products for number, shape, _ in operands}
        self.arrays = {number: torch.randn(shape) for number, shape in shapes.items()}
        self.operands = [self._operands(*product) for product in products]

    def first(self):
        self.run(1)
        return {}

    def run(self, steps):
        for _ in range(steps):
            for left, right, out in self.operands:
                torch.mm(left, right, out=out)

    def _operands(self, left, right, contracted):
        """As rows x shared and shared x columns; a transposed one keeps its layout in memory, as it does in ours."""
        a, b = (self.arrays[number].permute(permutation) for number, _, permutation in (left, right))
        on_left, on_right = contracted
        if not on_left:  # an outer product shares nothing
            a, on_left, b, on_right = a[..., None], [a.ndim], b[None], [0]
        a, b = a.movedim(on_left, [-1]), b.movedim(on_right, [0])
        a, b = a.reshape(-1, a.shape[-1]), b.reshape(len(b), -1)
        return a, b, torch.empty(len(a), b.shape[1])
