"""DeepXDE, as it comes and with zero-coordinate shift: its data, its network, its own compiled train_step.

Both are written in two ways. `documented`: the equation in the `pde` function, boundary and initial blocks as condition
objects, as its guide shows; DeepXDE walks through those input by input in Python. `stacked`: all blocks are residuals
of the `pde` function on one stack of points. No guide says so, but it is the fastest that we found in DeepXDE (its
forward mode took two to three times as long).
"""

import deepxde as dde
import equations
import numpy as np
import torch
from case import Case
from torch_autograd import gradient_norm

torch.set_num_threads(1)


class GivenInputs(dde.data.function_spaces.FunctionSpace):
    """The case's inputs where DeepXDE would draw some: as they are for the branch, by their matrix at the points."""

    def __init__(self, inputs, matrix):
        self.inputs, self.matrix, self.sensors = inputs, matrix, np.zeros((inputs.shape[1], 1))

    def random(self, size):
        return self.inputs

    def eval_one(self, feature, x):
        raise NotImplementedError("DeepXDE evaluates batches.")

    def eval_batch(self, features, xs):
        return features if xs is self.sensors else features @ self.matrix.T


class EqualsInput(dde.icbc.PointSetBC):
    """u = a at given points. DeepXDE's own initial condition would choose them among those of the equation."""

    def error(self, X, inputs, outputs, beg, end, aux_var=None):
        return outputs[beg:end] - aux_var[beg:end]


class Periodic(dde.icbc.PeriodicBC):
    """DeepXDE's periodic condition at given pairs of points."""

    def __init__(self, geometry, points, order):
        super().__init__(geometry, 0, lambda x, on: on, derivative_order=order)
        self.points = points

    def collocation_points(self, X):
        return self.points


class Model:
    """What both ways share. `shifted` takes DeepXDE's classes with zero-coordinate shift in place of the default ones.

    The shifted model hands all inputs to `pde` at once (inputs x points), the default one each in turn (points x 1).
    """

    def __init__(self, path, kind, shifted):
        self.case, self.kind, self.shifted = Case(path), kind, shifted
        flat = len(self.case.coordinates) == 1
        self.geometry = dde.geometry.Interval(0, 1) if flat else dde.geometry.Rectangle([0, 0], [1, 1])

    def compile(self, pde, conditions, points, matrix, weights):
        """Points are those of the equation; the matrix also has the conditions' rows, and these come first."""
        inputs = self.case.clean if self.kind == "pi" else self.case.both
        space = GivenInputs(inputs, matrix)
        equation = dde.data.PDE(self.geometry, pde, conditions, anchors=points)
        operator = (dde.zcs if self.shifted else dde.data).PDEOperatorCartesianProd
        data = operator(equation, space, space.sensors, len(inputs), function_variables=[0])
        self.model = (dde.zcs.Model if self.shifted else dde.Model)(data, self._network())
        self.model.compile("adam", lr=self.case.rate, loss_weights=weights, verbose=0)
        self.batch = data.train_next_batch()

    def first(self):
        loss = float(self.model.outputs_losses_train(*self.batch)[1].sum().detach())
        self.run(1)
        return {"loss": loss, "gradient": gradient_norm(self.model.opt)}

    def run(self, steps):
        for _ in range(steps):
            self.model.train_step(*self.batch)

    def derivatives(self, where, u):
        """A function of names like u_xx."""
        letters = self.case.coordinates
        if self.shifted:
            lazy = dde.zcs.LazyGrad(where, u)
            return lambda name: lazy.compute(tuple(name[1:].count(letter) for letter in letters))

        def derivative(name):
            first, *second = (letters.index(letter) for letter in name.removeprefix("u_"))
            if second:
                return dde.grad.hessian(u, where, i=first, j=second[0])
            return dde.grad.jacobian(u, where, i=0, j=first)

        return derivative

    def _network(self):
        nets = self.case.branch, self.case.trunk
        sizes = [[len(layers[0][0]), *(len(bias) for _, bias in layers)] for layers in nets]
        net = dde.nn.DeepONetCartesianProd(*sizes, "tanh", "Glorot normal")
        # Ours ends its trunk with a linear layer, DeepXDE with an activation.
        net.activation_trunk = torch.nn.Identity()
        with torch.no_grad():
            for part, layers in zip((net.branch, net.trunk), nets, strict=True):
                for linear, (weight, bias) in zip(part.linears, layers, strict=True):
                    linear.weight.copy_(torch.tensor(weight.T))
                    linear.bias.copy_(torch.tensor(bias))
        return net


class Documented(Model):
    def __init__(self, path, kind, shifted):
        super().__init__(path, kind, shifted)
        self.formulas = dict(equations.BLOCKS[self.case.problem])
        self.equation, interior = self.formulas.pop("pde"), self.case.blocks["pde"]
        conditions, rows, weights = [], [], [interior.weight]
        for name, formula in self.formulas.items():
            block = self.case.blocks[name]
            found = self._conditions(formula, block.points)
            conditions += found
            rows += [block.matrix] * len(found)
            weights += [block.weight] * len(found)
        self.compile(self._pde, conditions, interior.points, np.concatenate([*rows, interior.matrix]), weights)

    def _conditions(self, formula, points):
        if formula is equations.periodic:
            return [Periodic(self.geometry, points, order) for order in (0, 1)]
        return [(EqualsInput if formula is equations.equal else dde.icbc.PointSetBC)(points, 0)]

    def _pde(self, where, u, a):
        names, with_input = equations.needs(self.equation)
        derivative = self.derivatives(where, u)
        fields = {name: u if name == "u" else derivative(name) for name in names}
        return self.equation(**fields, **({"a": a} if with_input else {}))


class Stacked(Model):
    def __init__(self, path, kind, shifted):
        super().__init__(path, kind, shifted)
        blocks = self.case.blocks.values()
        ends = np.cumsum([0, *(len(block.points) for block in blocks)])
        self.parts = {name: slice(*ends[i : i + 2]) for i, name in enumerate(self.case.blocks)}
        formulas = equations.BLOCKS[self.case.problem]
        weights = [
            block.weight
            for name, block in self.case.blocks.items()
            for _ in range(1 + (formulas[name] is equations.periodic))
        ]
        if kind == "stable":
            weights += [self.case.lambda_sens * weight for weight in weights]
        points, matrix = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("points", "matrix"))
        self.compile(self._pde, [], points, matrix, weights)

    def _pde(self, where, u, a):
        derivative = self.derivatives(where, u)
        # Points last for the formulas.
        turn = (lambda array: array) if self.shifted else (lambda array: array.T)
        found = []
        for name, formula in equations.BLOCKS[self.case.problem].items():
            names, with_input = equations.needs(formula)
            part = self.parts[name]
            fields = {n: turn(u if n == "u" else derivative(n))[:, part] for n in names}
            found += formula(**fields, **({"a": turn(a)[:, part]} if with_input else {}))
        return found if self.kind == "pi" else self._stable(found)

    def _stable(self, found):
        """Residuals whose mean squares are the terms of the stable objective."""
        half, root = len(self.case.clean), torch.as_tensor(self.case.spread[:, None] ** 0.5)
        return [r[half:] for r in found] + [(r[half:] - r[:half]) / root for r in found]


def shifted(path, kind):
    return Documented(path, kind, True)


def default(path, kind):
    return Documented(path, kind, False)


def shifted_stacked(path, kind):
    return Stacked(path, kind, True)


def default_stacked(path, kind):
    return Stacked(path, kind, False)
