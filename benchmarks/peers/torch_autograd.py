"""PyTorch by hand: every input gets its own copy of the points, so that autograd gives derivatives for each input.

This is the usual way (points expanded to inputs x points, double backward), with what a careful user saves: the branch
runs once for each input, one backward gives all first derivatives, and blocks without derivatives share the trunk.
"""

import attack
import equations
import torch
from case import Case

torch.set_num_threads(1)


def network(layers):
    modules = []
    for weight, bias in layers:
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        modules += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1])


def gradient_norm(optimiser):
    """From Adam's first moment after one step, which is a tenth of the gradient."""
    moments = [state["exp_avg"].flatten() for state in optimiser.state.values()]
    return float(torch.cat(moments).norm() / 0.1)


class Expanded:
    def __init__(self, path, kind):
        self.case, self.kind = Case(path, torch.as_tensor), kind
        self.branch, self.trunk = network(self.case.branch), network(self.case.trunk)
        self.bias = torch.nn.Parameter(self.case.bias.clone())
        self.parameters = [*self.branch.parameters(), *self.trunk.parameters(), self.bias]
        self.optimiser = torch.optim.Adam(self.parameters, lr=self.case.rate)

    def first(self):
        if self.kind == "refresh":
            steps = self.case.attack["steps"]
            attacked = attack.ascend(self.case, self._slope, torch, attack.SAMPLE, steps)
            return {"loss": float(equations.physics(self.case, self._residuals(attacked)).mean()), "parts": steps}
        return {"loss": float(self._step()), "gradient": gradient_norm(self.optimiser)}

    def run(self, steps):
        if self.kind == "refresh":
            attack.ascend(self.case, self._slope, torch, len(self.case.clean), steps)
            return
        for _ in range(steps):
            self._step()

    def _step(self):
        self.optimiser.zero_grad()
        loss = equations.objective(self.case, self.kind, self._residuals)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def _slope(self, a):
        a = a.requires_grad_()
        return torch.autograd.grad(equations.physics(self.case, self._residuals(a)).sum(), a)[0]

    def _residuals(self, a):
        coefficients = self.branch(a)
        return equations.residuals(self.case, a, lambda points, names: self._fields(coefficients, points, names))

    def _fields(self, coefficients, points, names):
        if names == ["u"]:
            return {"u": coefficients @ self.trunk(points).T + self.bias}
        copies = points.expand(len(coefficients), *points.shape).clone().requires_grad_()
        u = torch.einsum("bk,bnk->bn", coefficients, self.trunk(copies)) + self.bias
        found = {"u": u} | self._derivatives(u, "u_", copies)
        if any(len(name) == len("u_xx") for name in names):
            found |= self._derivatives(found["u_x"], "u_x", copies)
        return {name: found[name] for name in names}

    def _derivatives(self, u, prefix, points):
        gradient = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        return {prefix + letter: gradient[..., i] for i, letter in enumerate(self.case.coordinates)}
