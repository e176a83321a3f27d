"""The matrix products that our step does, read off its own program.

A product is (left, right, dimension numbers), an operand (its origin's number, its origin's shape, its permutation):
operands of one origin are one array, so that what stays in cache between products of a step stays here, too.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Var
from jax.interpreters.partial_eval import dce_jaxpr

from stablepdenet.training.objectives import Batch, Clean


def matrix_products(function, *arguments):
    """Every matrix product of `function`."""
    found, numbers = [], {}

    def walk(jaxpr, origins):
        """`origins` has (variable of the outermost program, permutation) for the variables of a nested one."""

        def origin(variable):
            return origins.get(variable, (variable, tuple(range(variable.aval.ndim))))

        def operand(variable):
            source, permutation = origin(variable)
            return numbers.setdefault(source, len(numbers)), source.aval.shape, permutation

        for equation in jaxpr.eqns:
            inner = next((p for p in equation.params.values() if hasattr(p, "eqns") or hasattr(p, "jaxpr")), None)
            if equation.primitive.name == "dot_general":
                contracted, batched = equation.params["dimension_numbers"]
                assert batched == ((), ()), "products of stacks are not counted"
                found.append((*map(operand, equation.invars), contracted))
            elif equation.primitive.name == "transpose":
                source, before = origin(equation.invars[0])
                after = tuple(before[i] for i in equation.params["permutation"])
                origins[equation.outvars[0]] = source, after
            elif inner is not None:
                inner = getattr(inner, "jaxpr", inner)
                pairs = zip(inner.invars, equation.invars, strict=True)
                walk(inner, {own: origin(given) for own, given in pairs if isinstance(given, Var)})

    program = jax.make_jaxpr(function)(*arguments).jaxpr
    # What no result depends on is traced, but never runs.
    walk(dce_jaxpr(program, [True] * len(program.outvars))[0], {})
    return found


def step_products(problem, operator, inputs):
    """The products of one PI step's loss and gradient."""

    def loss(operator):
        batch = Batch(inputs, inputs)
        return Clean().terms(operator, problem, batch, jnp.zeros(())).loss

    return matrix_products(jax.grad(loss), operator)


def operations(found):
    """Floating-point operations of all products: two for each pair of numbers that meets."""

    def pairs(left, right, contracted):
        (_, rows, permutation), (_, columns, _) = left, right
        shared = math.prod(rows[permutation[i]] for i in contracted[0])
        return math.prod(rows) * math.prod(columns) // shared

    return 2 * sum(pairs(*product) for product in found)


def products_alone(found):
    """A compiled loop that does nothing but the products, n times over."""
    rng = np.random.default_rng(0)
    shapes = {number: shape for *operands, _ in found for number, shape, _ in operands}
    arrays = {number: jnp.asarray(rng.normal(size=shape), jnp.float32) for number, shape in shapes.items()}

    def body(i, total):
        # The first barrier ties the operands to the counter, so the products cannot leave the loop; the second
        # one keeps them whole, although only one entry of each is used.
        tied, _ = jax.lax.optimization_barrier((arrays, i))

        def product(left, right, contracted):
            a, b = (jnp.transpose(tied[number], permutation) for number, _, permutation in (left, right))
            return jax.lax.dot_general(a, b, (contracted, ((), ())))

        outputs = [product(*each) for each in found]
        return total + sum(output.ravel()[0] for output in jax.lax.optimization_barrier(outputs))

    return jax.jit(lambda n: jax.lax.fori_loop(0, n, body, jnp.zeros(())))
