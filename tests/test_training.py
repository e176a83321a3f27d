"""Algorithm 2: phases, cache, calibration."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import same, setup

from stablepdenet.errors import DivergenceError
from stablepdenet.experiments.runs import start
from stablepdenet.experiments.training import initial_state, make_program, train, train_suite
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.progress import silent
from stablepdenet.training.objectives import Batch


def test_training_lowers_the_physics_loss():
    problem, config = setup(training__steps=400, method__name="pi", training__learning_rate=2e-3)
    a = problem.sample(20, key=jax.random.key(9))
    losses = []
    for operator in (initial_state(problem, config).operator, train(problem, config).operator):
        losses.append(float(jnp.mean(physics_loss(residual_map(operator, problem)(a), problem))))
    assert losses[1] < 0.2 * losses[0]


def test_where_the_run_is_cut_into_chunks_does_not_matter():
    problem, config = setup(method__name="stable")
    _, coarse = setup(method__name="stable", training__log_every=1000, training__checkpoint_every=7)
    assert same(train(problem, config), train(problem, coarse))


def test_methods_trained_together_equal_each_trained_alone(tmp_path):
    problem, config = setup()
    together = train_suite(problem, config, folder=tmp_path)
    for name, state in together.items():
        _, alone = setup(method__name=name)
        assert same(state, train(problem, alone)), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adv", "pi", "stable", "warmup"]


def test_an_interrupted_suite_continues_to_the_same_bytes(tmp_path):
    problem, config = setup()
    whole = start(problem, config, tmp_path / "whole", together=True, progress=silent)

    class Crash(Exception):
        pass

    def crash(report):
        if report.task == "adv" and report.done == 40:
            raise Crash

    with pytest.raises(Crash):
        start(problem, config, tmp_path / "cut", together=True, progress=crash)
    resumed = start(problem, config, tmp_path / "cut", together=True, progress=silent)
    assert all(same(whole[name], resumed[name]) for name in whole)


def test_each_epoch_deals_out_every_training_function_once():
    problem, config = setup()
    program = make_program(problem, config)
    state = initial_state(problem, config)
    rows = {tuple(row): i for i, row in enumerate(np.asarray(program.functions).tolist())}
    epochs = []
    for epoch in range(2):
        batches = [program._deal(state, program.functions, 3 * epoch + slot) for slot in range(3)]
        epochs.append([rows[tuple(row)] for batch in batches for row in np.asarray(batch).tolist()])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(30))
    assert epochs[0] != epochs[1]


def test_the_cache_is_refreshed_every_m_steps_and_only_then():
    problem, config = setup(method__name="stable")
    program = make_program(problem, config)
    state, caches, step = initial_state(problem, config), {}, 0
    while step < 60:
        state, _ = program.advance(state, step + 5)
        step += 5
        caches[step] = np.asarray(state.cache.attacked)
    assert not caches[20].any()
    assert caches[25].any()
    for step in range(30, 65, 5):
        # Defence began at 20, so caches made at 20, 30, 40, 50 serve the steps after them.
        assert np.array_equal(caches[step], caches[step - 5]) == (step % 10 == 0), step


def test_a_cache_of_the_whole_set_holds_every_training_function_attacked_and_deals_them_out():
    problem, config = setup(method__name="adv", training__cache="set", training__refresh=7)
    program = make_program(problem, config)
    warm, _ = program.advance(initial_state(problem, config), 20)
    state, _ = program.advance(warm, 23)
    assert sorted(np.asarray(state.cache.clean).tolist()) == sorted(np.asarray(program.functions).tolist())
    residuals = residual_map(warm.operator, problem)
    clean, attacked = (physics_loss(residuals(a), problem) for a in state.cache)
    assert np.all(attacked >= clean)
    assert np.mean(attacked) > np.mean(clean)
    # Steps 20 to 22 end one epoch of three batches and begin another; by hand, on the batches that they should take.
    by_hand = state._replace(operator=warm.operator, optimiser=warm.optimiser, step=warm.step)
    for step in (20, 21, 22):
        epoch, slot = divmod(step, 3)
        batch = Batch(*(program._deck(by_hand, inputs, jnp.asarray(epoch))[slot] for inputs in state.cache))
        by_hand, _ = program._defend(by_hand._replace(cache=batch), jnp.asarray(step + 1))
    for left, right in zip(*map(jax.tree.leaves, (by_hand.operator, state.operator)), strict=True):
        assert np.allclose(left, right, rtol=1e-5, atol=1e-7)
    again = train(problem, config, start=warm)
    assert same(again, train(problem, config))


def test_the_best_parameters_are_those_of_the_smallest_validation_loss():
    problem, config = setup(method__name="adv", training__validate_every=5, training__learning_rate=0.02)
    program = make_program(problem, config)
    rows: list[Any] = []
    state = train(problem, config, progress=lambda report: rows.append(report.numbers))
    judged = [row for row in rows if row["step"] > 20]
    best = min(judged, key=lambda row: row["validation_attacked"])
    assert best["step"] < 60, "a rate this high should not end at its best"
    assert int(state.best.step) == best["step"]
    assert float(state.best.loss) == best["validation_attacked"]
    # By hand: the loss of the kept parameters on the held-out functions and on their attacked copies.
    kept = state._replace(operator=state.best.operator)
    found = program.validate(kept)[1]
    assert found.attacked is not None
    assert np.isclose(found.attacked, state.best.loss)
    losses = physics_loss(residual_map(kept.operator, problem)(program.held_out), problem)
    assert np.isclose(found.clean, np.mean(losses))
    assert not set(map(tuple, np.asarray(program.held_out).tolist())) & set(
        map(tuple, np.asarray(program.functions).tolist())
    )


def test_the_cached_perturbation_is_admissible_and_raises_the_loss():
    problem, config = setup("burgers", method__name="stable", attack__steps=40)
    program = make_program(problem, config)
    state, _ = program.advance(initial_state(problem, config), 20)
    state, _ = program.advance(state, 21)
    delta = np.asarray(state.cache.attacked - state.cache.clean)
    assert np.max(np.abs(delta)) <= 0.05 * (1 + 1e-5)
    assert np.array_equal(state.cache.attacked[:, 0], state.cache.attacked[:, -1])
    residuals = residual_map(state.operator, problem)
    clean, attacked = (physics_loss(residuals(a), problem) for a in state.cache)
    assert np.all(attacked > clean)


def test_lambda_is_calibrated_at_the_end_of_the_warmup_and_then_fixed():
    problem, config = setup(method__name="stable", method__calibration_batches=4)
    program = make_program(problem, config)
    warm, _ = program.advance(initial_state(problem, config), 20)
    assert float(warm.lambda_sens) == 0.0
    state, _ = program.advance(warm, 25)
    # By hand: the average loss and Q over four attacked batches of the warmed-up operator.
    terms = [
        program.objective.terms(warm.operator, problem, program._attacked(warm, batch, jnp.asarray(k)), jnp.zeros(()))
        for k, batch in enumerate(program._deal(warm, program.functions, k) for k in range(4))
    ]
    physics, quotient = (np.mean([getattr(t, field) for t in terms]) for field in ("loss", "sensitivity"))
    assert np.isclose(state.lambda_sens, 0.1 / 0.9 * physics / quotient, rtol=1e-4)
    later, _ = program.advance(state, 30)
    assert later.lambda_sens == state.lambda_sens


def test_a_diverging_run_stops_and_names_the_block():
    problem, config = setup(training__learning_rate=1e30)
    with pytest.raises(DivergenceError, match="loss_"):
        train(problem, config)
