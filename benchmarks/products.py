"""The matrix products of a step, read off its own program: what a step cannot do without."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from stablepdenet.methods import Batch, Clean
from stablepdenet.physics import residual_map


def matrix_products(function, *arguments):
    """Shapes and dimension numbers of every matrix product in `function`."""
    found = []

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                left, right = (variable.aval.shape for variable in equation.invars)
                found.append((left, right, equation.params["dimension_numbers"]))
            for parameter in equation.params.values():
                if hasattr(parameter, "jaxpr"):
                    walk(parameter.jaxpr)
                elif hasattr(parameter, "eqns"):
                    walk(parameter)

    program = jax.make_jaxpr(function)(*arguments).jaxpr
    # What no result depends on is traced, but never runs.
    walk(dce_jaxpr(program, [True] * len(program.outvars))[0])
    return found


def step_products(problem, operator, inputs):
    """The products of one PI step's loss and gradient."""

    def loss(operator):
        batch = Batch(inputs, inputs)
        return Clean().terms(residual_map(operator, problem), problem, batch, jnp.zeros(())).loss

    return matrix_products(jax.grad(loss), operator)


def operations(found):
    """Floating-point operations of all products: two for each pair of numbers that meets."""
    return sum(2 * np.prod(left) * np.prod(right) / np.prod([left[i] for i in d[0][0]]) for left, right, d in found)


def products_alone(found):
    """A compiled loop that does nothing but the products, n times over."""
    rng = np.random.default_rng(0)
    operands = [tuple(jnp.asarray(rng.normal(size=s), jnp.float32) for s in shapes[:2]) for shapes in found]

    def body(i, total):
        # The first barrier ties the operands to the counter, so the products cannot leave the loop; the second
        # one keeps them whole, although only one entry of each is used.
        tied, _ = jax.lax.optimization_barrier((operands, i))
        outputs = [jax.lax.dot_general(a, b, n) for (a, b), (_, _, n) in zip(tied, found, strict=True)]
        return total + sum(output.ravel()[0] for output in jax.lax.optimization_barrier(outputs))

    return jax.jit(lambda n: jax.lax.fori_loop(0, n, body, jnp.zeros(())))
