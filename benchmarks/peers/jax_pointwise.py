"""JAX as PI-DeepONets are usually written: u at one point for one input, nested grad, vmap over points and inputs."""

import attack
import equations
import jax
import jax.numpy as jnp
import optax
from case import Case


def mlp(x, layers):
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def solution(net, a, *point):
    """u of one input at one point."""
    return mlp(a, net["branch"]) @ mlp(jnp.stack(point), net["trunk"]) + net["bias"]


class Pointwise:
    def __init__(self, path, kind):
        self.case, self.kind = Case(path, jnp.asarray), kind
        self.net = {"branch": self.case.branch, "trunk": self.case.trunk, "bias": self.case.bias}
        optimiser = optax.adam(self.case.rate)
        self.state = optimiser.init(self.net)

        def step(net, state):
            loss, gradient = jax.value_and_grad(self._loss)(net)
            updates, state = optimiser.update(gradient, state)
            return optax.apply_updates(net, updates), state, loss

        # What a step replaces, it may overwrite.
        self.step = jax.jit(step, donate_argnums=(0, 1))
        slope = jax.jit(jax.grad(lambda a, net: jnp.sum(self._physics(net, a))))
        self.slope = lambda a: slope(a, self.net)

    def first(self):
        if self.kind == "refresh":
            steps = self.case.attack["steps"]
            attacked = attack.ascend(self.case, self.slope, jnp, attack.SAMPLE, steps)
            return {"loss": float(jnp.mean(self._physics(self.net, attacked))), "parts": steps}
        self.net, self.state, loss = self.step(self.net, self.state)
        return {"loss": float(loss), "gradient": float(optax.global_norm(self.state[0].mu) / 0.1)}

    def run(self, steps):
        if self.kind == "refresh":
            jax.block_until_ready(attack.ascend(self.case, self.slope, jnp, len(self.case.clean), steps))
            return
        for _ in range(steps):
            self.net, self.state, _ = self.step(self.net, self.state)
        jax.block_until_ready(self.net)

    def _loss(self, net):
        return equations.objective(self.case, self.kind, lambda a: self._residuals(net, a))

    def _physics(self, net, a):
        return equations.physics(self.case, self._residuals(net, a))

    def _residuals(self, net, a):
        def fields(points, names):
            return {name: self._everywhere(name)(net, a, *points.T) for name in names}

        return equations.residuals(self.case, a, fields)

    def _everywhere(self, name):
        function = solution
        for letter in name.removeprefix("u").removeprefix("_"):
            function = jax.grad(function, argnums=2 + self.case.coordinates.index(letter))
        count = len(self.case.coordinates)
        over_points = jax.vmap(function, (None, None, *[0] * count))
        return jax.vmap(over_points, (None, 0, *[None] * count))
