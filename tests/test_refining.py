"""Refining: Gauss-Newton steps at inference, checked against least squares by hand."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import Block, load_model, make_problem, points, refine
from stablepdenet.auditing.session import Session
from stablepdenet.functions import Inputs, SensorInput
from stablepdenet.operators import AbstractBasisOperator, ConstrainedOperator, DeepONet
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.refining import projected_residual, warn_unsettled


def error(operator, problem, a):
    u = problem.reference(np.asarray(a))
    return np.linalg.norm(np.asarray(operator(a, jnp.asarray(problem.grid))) - u) / np.linalg.norm(u)


def sensors_of(problem):
    law = problem.inputs["a"]
    assert isinstance(law, SensorInput)
    return law


@pytest.fixture(scope="module")
def poisson():
    problem = make_problem("poisson")
    return problem, load_model("poisson", "pi")


def test_a_plain_operator_becomes_accurate_and_stable(poisson):
    problem, plain = poisson
    refined = refine(plain, problem)
    a = problem.sample(50, key=jax.random.key(4))
    rough = a + 0.05 * jax.random.rademacher(jax.random.key(5), a.shape)
    for inputs in (a, rough):
        assert error(refined, problem, inputs) < 0.05 * error(plain, problem, inputs)
    # Its own worst case is found by gradients through the step.
    operators = {"pi": plain, "refined": refined}
    session = Session(operators, problem, tests=10, eps=(0.05,), identity={"recipe": "own", "seed": 0})
    case = session.common(0.05)
    assert case
    common = jnp.asarray(case.inputs)
    worst = {name: jnp.asarray(session.worst(name, 0.05)) for name in operators}
    assert error(refined, problem, worst["refined"]) < 0.1 * error(plain, problem, worst["pi"])
    assert error(refined, problem, worst["refined"]) >= error(refined, problem, common)


def test_one_step_is_the_least_squares_solution_of_a_linear_problem(poisson):
    problem, plain = poisson
    refined = refine(plain, problem)
    a = problem.sample(20, key=jax.random.key(6))
    parts = refined.parts

    def loss(c, row):
        fields = [{word: c[None] @ entry for word, entry in part.own.items()} for part in parts]
        return jnp.sum(projected_residual(refined.problem, refined.tests, fields, row[None]) ** 2)

    def losses(c):
        return np.asarray(jax.vmap(loss)(c, a))

    best = losses(refined.coefficients(a))
    assert np.all(best < 0.01 * losses(plain.coefficients(a)))
    # A second step finds nothing more, up to rounding, and no combination of the directions lowers the loss further.
    assert np.allclose(losses(refine(plain, problem, steps=2).coefficients(a)), best, rtol=0.05, atol=1e-9)
    for seed in range(3):
        step = 1e-3 * jax.random.normal(jax.random.key(seed), (refined.directions.shape[1],))
        assert np.all(losses(refined.coefficients(a) + refined.directions @ step) > best)


def test_what_the_basis_cannot_follow_is_not_fitted(poisson):
    problem, plain = poisson
    refined = refine(plain, problem)
    basis = np.asarray(plain.basis(jnp.asarray(refined.problem.blocks[0].points)))
    tests = np.asarray(refined.tests[0])
    assert len(tests) < len(basis.T) < len(basis)
    assert np.allclose(tests @ tests.T, np.eye(len(tests)), atol=1e-5)
    assert np.allclose(tests.T @ (tests @ basis), basis, atol=1e-4 * np.abs(basis).max())


def test_the_input_itself_is_left_as_it_is():
    # A lift is exact at t = 0: steps change the learned part alone, which vanishes there.
    problem = make_problem("burgers", {"interior": 300, "sides": 10})
    assert problem.ansatz
    plain = ConstrainedOperator(DeepONet(101, 2, width=32, embedding="periodic", key=jax.random.key(0)), problem.ansatz)
    a = problem.sample(3, key=jax.random.key(1))
    start = jnp.asarray(points.initial(points.uniform(101)))
    refined = refine(plain, problem, steps=2)
    assert np.allclose(refined(a, start), a, atol=1e-5)
    assert error(refined, problem, a) < 0.5 * error(plain, problem, a)
    assert [block.name for block in refined.problem.blocks] == ["pde"], "the others hold by construction"


class Louder(AbstractBasisOperator):
    """An operator that answers with a multiple of another's coefficients."""

    operator: AbstractBasisOperator
    factor: float

    def coefficients(self, a):
        return self.factor * self.operator.coefficients(a)

    def basis(self, points):
        return self.operator.basis(points)


def test_a_start_that_is_worse_than_none_is_not_taken():
    problem, plain = make_problem("burgers", {"interior": 300, "sides": 10}), load_model("burgers", "pi")
    assert isinstance(plain, AbstractBasisOperator)
    a = problem.sample(3, key=jax.random.key(2))
    found = [error(refine(Louder(plain, factor), problem, steps=2), problem, a) for factor in (1.0, 0.0, 30.0)]
    assert error(Louder(plain, 30.0), problem, a) > 10
    assert found[0] < found[1] < 1
    assert abs(found[2] - found[1]) < 0.1 * found[1]


def test_steps_help_a_nonlinear_problem():
    problem = make_problem("burgers")
    plain = load_model("burgers", "pi")
    a = problem.sample(3, key=jax.random.key(8))
    rough = a + 0.05 * jax.random.rademacher(jax.random.key(9), a.shape)
    rough = rough.at[:, -1].set(rough[:, 0])
    assert error(refine(plain, problem), problem, a) < 0.3 * error(plain, problem, a)
    assert error(refine(plain, problem, steps=3), problem, rough) < 0.5 * error(plain, problem, rough)


class Modes(AbstractBasisOperator):
    """Sines, and no idea of their coefficients."""

    def coefficients(self, a):
        return 0.0 * a[:, :12]

    def basis(self, points):
        return jnp.sin(jnp.pi * points * jnp.arange(1, 13))


def test_inputs_that_are_far_off_take_further_steps():
    problem = make_problem("poisson")
    pde = Block("pde", points.hammersley(200), lambda u, u_xx, a: -u_xx + 100.0 * u**3 - a)
    own = dataclasses.replace(problem, blocks=(pde,), refinement_blocks=())
    sizes = jnp.geomspace(0.3, 30.0, 20)[:, None]
    a, grid = sizes * jnp.sin(3.0 * jnp.asarray(sensors_of(problem).sensors)), jnp.asarray(problem.grid)
    three, further, many = (
        refine(Modes(), own, steps=steps, further=more) for steps, more in ((3, 0), (3, 8), (12, 0))
    )
    answers = [operator(a, grid) for operator in (three, further, many)]
    left = [np.linalg.norm(u - answers[-1], axis=1) / np.linalg.norm(answers[-1], axis=1) for u in answers]
    assert np.max(left[0]) > 0.1
    assert np.max(left[1]) < 1e-3
    assert np.sum(three.settled(a)) < 20
    assert np.all(further.settled(a))
    # Where three are enough, there are no more.
    near = left[0] < 1e-3
    assert 3 < np.sum(near) < 17
    assert np.allclose(left[0][near], left[1][near], rtol=1e-3, atol=1e-6)
    # The answer's slope along a change of the input, though gradients skip the further steps.
    along = 0.1 * jnp.cos(a[-1:])
    _, slope = jax.jvp(lambda far: further(far, grid), (a[-1:],), (along,))
    change = many(a[-1:] + along, grid) - many(a[-1:] - along, grid)
    assert np.linalg.norm(2 * slope - change) < 1e-3 * np.linalg.norm(change)


def test_an_input_may_be_a_coefficient():
    # -(a u_xx) = 1: without an input there is no equation, so directions must come from real inputs.
    problem, plain = make_problem("poisson"), load_model("poisson", "pi")
    a = 1.0 + 0.5 * jnp.sin(3.0 * jnp.asarray(points.uniform(100)))[None]
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a: -a * u_xx - 1.0)

    class Positive(SensorInput):
        def sample(self, num, *, key):
            return 1.0 + 0.3 * jnp.abs(super().sample(num, key=key))

    law = sensors_of(problem)
    inputs = Inputs(a=Positive(law.space, law.sensors))
    own = dataclasses.replace(problem, blocks=(pde, problem.blocks[1]), refinement_blocks=(), inputs=inputs)
    losses = [
        float(physics_loss(residual_map(operator, own)(a), own)[0]) for operator in (plain, refine(plain, own, steps=2))
    ]
    assert losses[1] < 1e-3 * losses[0]


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e5])
def test_units_do_not_decide_which_blocks_hold_by_construction(poisson, unit):
    problem, plain = poisson
    a = problem.sample(5, key=jax.random.key(3))

    def posed(unit):
        pde = Block(
            "pde", problem.blocks[0].points, lambda u, u_xx, a: unit * (-(1 + u**2) * u_xx - a), weight=unit**-2
        )
        return dataclasses.replace(problem, blocks=(pde, problem.blocks[1]), refinement_blocks=())

    refined = refine(plain, posed(unit), steps=2)
    assert [block.name for block in refined.problem.blocks] == ["pde", "bc"]
    own = posed(1.0)
    before, after = (physics_loss(residual_map(o, own)(a), own)[0] for o in (plain, refined))
    assert after < 1e-3 * before


def test_a_residual_that_is_no_number_at_zero_is_started_from_the_branch(poisson):
    problem, plain = poisson
    pde = Block("pde", problem.blocks[0].points, lambda u, u_xx, a: -u_xx + 0.01 * u * jnp.log(u * u) - a)
    own = dataclasses.replace(problem, blocks=(pde, problem.blocks[1]), refinement_blocks=())
    a = problem.sample(5, key=jax.random.key(3))
    before, after = (physics_loss(residual_map(o, own)(a), own) for o in (plain, refine(plain, own, steps=2)))
    assert np.all(after < before)


def test_steps_that_do_not_help_are_not_taken(poisson):
    # |u_xx - a|^(1/4): from either side of its kink, Newton's step goes four times as far as it should.
    problem, plain = poisson
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a: jnp.abs(u_xx + a) ** 0.25)
    own = dataclasses.replace(problem, blocks=(pde,), refinement_blocks=())
    a = problem.sample(3, key=jax.random.key(3))
    refined = refine(plain, own, steps=1)
    kept = plain.coefficients(a)
    with pytest.warns(UserWarning, match="does not settle on 20 of 20 inputs of 'poisson'"):
        warn_unsettled(refine(plain, own, steps=6), own)
    assert np.array_equal(refined.coefficients(a), kept) or np.array_equal(refined.coefficients(a), 0.0 * kept)


class Sines(AbstractBasisOperator):
    """Six modes, and a seventh function that is rounding in its values, but not in its second derivative."""

    def coefficients(self, a):
        return jnp.zeros((len(a), 7))

    def basis(self, points):
        modes = jnp.pi * jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 30.0])
        return jnp.array([1.0] * 6 + [8e-6]) * jnp.sin(points * modes)


def test_there_are_no_more_unknowns_than_equations():
    # -(a u_xx) = 1 with a rough: each input has another combination of functions that no test function sees.
    problem = make_problem("poisson")
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a: -a * u_xx - 1.0)

    class Rough(SensorInput):
        def sample(self, num, *, key):
            return 1.0 + 0.9 * jax.random.uniform(key, (num, self.size), minval=-1.0)

    law = sensors_of(problem)
    inputs = Inputs(a=Rough(law.space, law.sensors))
    refined = refine(Sines(), dataclasses.replace(problem, blocks=(pde,), refinement_blocks=(), inputs=inputs))
    assert refined.tests[0] is not None and len(refined.tests[0]) == 6
    assert refined.directions.shape == (7, 6)


def test_units_do_not_decide_which_blocks_count():
    problem, plain = make_problem("poisson"), load_model("poisson", "pi")
    pde, bc = problem.blocks
    large = Block("pde", pde.points, lambda u_xx, a: 1e6 * (-u_xx - a))
    scaled = dataclasses.replace(
        problem, blocks=(large, dataclasses.replace(bc, weight=1e12 * bc.weight)), refinement_blocks=()
    )
    a = problem.sample(5, key=jax.random.key(3))
    assert error(refine(plain, scaled), problem, a) < 0.1 * error(plain, problem, a)
