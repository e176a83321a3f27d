"""Algorithm 2: phases, cache, calibration; and a stopped run that ends where an undisturbed one does."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.errors import CheckpointError, ConfigError, DivergenceError, Interrupted
from stablepdenet.methods import Batch, Stable
from stablepdenet.physics import physics_loss, residual_map
from stablepdenet.problems import make_problem
from stablepdenet.runs import configure, load_operator, start
from stablepdenet.training import Program, Run, train, train_in, train_suite

SMALL = {
    "operator.width": 16,
    "training.steps": 60,
    "training.warmup": 20,
    "training.refresh": 10,
    "training.functions": 30,
    "training.batch": 10,
    "training.log_every": 5,
    "training.checkpoint_every": 10,
    "attack.steps": 3,
}


def setup(name="poisson", **changes):
    problem = make_problem(name, {"interior": 20})
    return problem, configure(problem, {**SMALL, **{k.replace("__", "."): v for k, v in changes.items()}})


def same(first, second):
    """Whether two states agree in every byte."""
    first, second = (s._replace(key=jax.random.key_data(s.key)) for s in (first, second))
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))


def silent(row):
    pass


def test_training_lowers_the_physics_loss():
    problem, config = setup(training__steps=400, method__name="pi", training__learning_rate=2e-3)
    a = problem.sample(20, key=jax.random.key(9))
    losses = []
    for operator in (Program(problem, config).initial().operator, train(problem, config).operator):
        losses.append(float(jnp.mean(physics_loss(residual_map(operator, problem)(a), problem))))
    assert losses[1] < 0.2 * losses[0]


@pytest.mark.parametrize("method", ["pi", "adv", "stable"])
@pytest.mark.parametrize("name", ["heat", "helmholtz"])
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, name, method):
    problem, config = setup(name, method__name=method)
    undisturbed = train_in(tmp_path / "whole", problem, config, report=silent)

    class Crash(Exception):
        pass

    def crash(row):
        if row["step"] == 45:
            raise Crash

    with pytest.raises(Crash):
        train_in(tmp_path / "cut", problem, config, report=crash)
    assert Run.open(tmp_path / "cut").latest(undisturbed).step == 40
    resumed = train_in(tmp_path / "cut", problem, config, report=silent)
    assert same(undisturbed, resumed)
    stored = [sorted((tmp_path / run / "checkpoints").glob("*"))[-1] / "state.safetensors" for run in ("whole", "cut")]
    assert stored[0].read_bytes() == stored[1].read_bytes()
    rows = [list(csv.DictReader((tmp_path / run / "log.csv").open())) for run in ("whole", "cut")]
    assert [{**row, "seconds": ""} for row in rows[0]] == [{**row, "seconds": ""} for row in rows[1]]


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
    whole = start(problem, config, tmp_path / "whole", together=True, new_report=lambda name, config: silent)

    class Crash(Exception):
        pass

    def reports(name, config):
        def report(row):
            if name == "adv" and row["step"] == 40:
                raise Crash

        return report

    with pytest.raises(Crash):
        start(problem, config, tmp_path / "cut", together=True, new_report=reports)
    resumed = start(problem, config, tmp_path / "cut", together=True, new_report=lambda name, config: silent)
    assert all(same(whole[name], resumed[name]) for name in whole)


def test_each_epoch_deals_out_every_training_function_once():
    problem, config = setup()
    program = Program(problem, config)
    state = program.initial()
    rows = {tuple(row): i for i, row in enumerate(np.asarray(program.functions).tolist())}
    epochs = []
    for epoch in range(2):
        batches = [program._deal(state, program.functions, 3 * epoch + slot) for slot in range(3)]
        epochs.append([rows[tuple(row)] for batch in batches for row in np.asarray(batch).tolist()])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(30))
    assert epochs[0] != epochs[1]


def test_the_cache_is_refreshed_every_m_steps_and_only_then():
    problem, config = setup(method__name="stable")
    program = Program(problem, config)
    state, caches, step = program.initial(), {}, 0
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
    program = Program(problem, config)
    warm, _ = program.advance(program.initial(), 20)
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
    program = Program(problem, config)
    rows = []
    state = train(problem, config, report=rows.append)
    judged = [row for row in rows if row["step"] > 20]
    best = min(judged, key=lambda row: row["validation_attacked"])
    assert best["step"] < 60, "a rate this high should not end at its best"
    assert int(state.best.step) == best["step"]
    assert float(state.best.loss) == best["validation_attacked"]
    # By hand: the loss of the kept parameters on the held-out functions and on their attacked copies.
    kept = state._replace(operator=state.best.operator)
    found = program.validate(kept)[1]
    assert np.isclose(found.attacked, state.best.loss)
    losses = physics_loss(residual_map(kept.operator, problem)(program.held_out), problem)
    assert np.isclose(found.clean, np.mean(losses))
    assert not set(map(tuple, np.asarray(program.held_out).tolist())) & set(
        map(tuple, np.asarray(program.functions).tolist())
    )


def test_the_cached_perturbation_is_admissible_and_raises_the_loss():
    problem, config = setup("burgers", method__name="stable", attack__steps=40)
    program = Program(problem, config)
    state, _ = program.advance(program.initial(), 20)
    state, _ = program.advance(state, 21)
    delta = np.asarray(state.cache.attacked - state.cache.clean)
    assert np.max(np.abs(delta)) <= 0.05 * (1 + 1e-5)
    assert np.array_equal(state.cache.attacked[:, 0], state.cache.attacked[:, -1])
    residuals = residual_map(state.operator, problem)
    clean, attacked = (physics_loss(residuals(a), problem) for a in state.cache)
    assert np.all(attacked > clean)


def test_lambda_is_calibrated_at_the_end_of_the_warmup_and_then_fixed():
    problem, config = setup(method__name="stable", method__calibration_batches=4)
    program = Program(problem, config)
    warm, _ = program.advance(program.initial(), 20)
    assert float(warm.lambda_sens) == 0.0
    state, _ = program.advance(warm, 25)
    # By hand: the average loss and Q over four attacked batches of the warmed-up operator.
    residuals = residual_map(warm.operator, problem)
    terms = [
        Stable().terms(residuals, problem, program._attacked(warm, batch, jnp.asarray(k)), jnp.zeros(()))
        for k, batch in enumerate(program._deal(warm, program.functions, k) for k in range(4))
    ]
    physics, quotient = (np.mean([getattr(t, field) for t in terms]) for field in ("loss", "sensitivity"))
    assert np.isclose(state.lambda_sens, 0.1 / 0.9 * physics / quotient, rtol=1e-4)
    later, _ = program.advance(state, 30)
    assert later.lambda_sens == state.lambda_sens


def test_a_run_of_an_own_problem_is_kept_and_loaded(tmp_path):
    problem, config = setup(method__name="pi")
    own = dataclasses.replace(problem, name="my own")
    config = configure(own, {**SMALL, "method.name": "pi"})
    state = train_in(tmp_path, own, config)
    _, operator = load_operator(tmp_path, own)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.trained, operator)), strict=True))


def test_a_run_is_not_continued_with_other_physics_of_the_same_name(tmp_path):
    problem, config = setup(method__name="pi")
    train_in(tmp_path, problem, config)
    pde, bc = problem.blocks
    other = dataclasses.replace(problem, blocks=(dataclasses.replace(pde, residual=lambda u_xx, a: -2 * u_xx - a), bc))
    with pytest.raises(ConfigError, match=r"problem\.fingerprint"):
        train_in(tmp_path, other, configure(other, {**SMALL, "method.name": "pi"}))


def test_a_diverging_run_stops_and_names_the_block():
    problem, config = setup(training__learning_rate=1e30)
    with pytest.raises(DivergenceError, match="loss_"):
        train(problem, config)


def test_a_signal_leaves_a_resumable_run(tmp_path):
    import os
    import signal

    problem, config = setup(method__name="pi")

    def interrupt(row):
        if row["step"] == 15:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        train_in(tmp_path / "run", problem, config, report=interrupt)
    assert caught.value.signal_number == signal.SIGTERM
    resumed = train_in(tmp_path / "run", problem, config, report=silent)
    assert same(resumed, train(problem, config))


def test_a_run_is_not_continued_with_another_configuration(tmp_path):
    problem, config = setup()
    train_in(tmp_path, problem, config, report=silent)
    _, other = setup(attack__eps=0.1)
    with pytest.raises(ConfigError, match=r"attack\.eps"):
        train_in(tmp_path, problem, other, report=silent)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    problem, config = setup(method__name="pi", training__steps=20)
    state = train_in(folder, problem, config, report=silent)
    return folder, state


def test_a_checkpoint_returns_every_byte_of_the_state(finished):
    folder, state = finished
    problem, config = setup(method__name="pi", training__steps=20)
    assert same(Run.open(folder).latest(Program(problem, config).initial()), state)


def _newest(folder):
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def _truncate(folder):
    file = _newest(folder) / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def _flip(folder):
    file = _newest(folder) / "state.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _foreign(folder):
    (_newest(folder) / "manifest.json").write_text('{"format": "something else"}')


def _not_json(folder):
    (_newest(folder) / "manifest.json").write_text("{")


def _other_seed(folder):
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stored, "seed": 1}))


def _other_shape(folder):
    stored = json.loads((folder / "config.json").read_text())
    stored["operator"]["width"] = 32
    (folder / "config.json").write_text(json.dumps(stored))


@pytest.mark.parametrize("damage", [_truncate, _flip, _foreign, _not_json, _other_seed, _other_shape])
def test_a_damaged_or_foreign_checkpoint_is_refused(finished, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(finished[0], folder)
    load_operator(folder)
    damage(folder)
    with pytest.raises(CheckpointError, match="run"):
        load_operator(folder)


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    problem, config = setup(method__name="pi", training__checkpoints_kept=3)
    train_in(tmp_path, problem, config, report=silent)
    assert [p.name for p in sorted((tmp_path / "checkpoints").iterdir())] == [f"step-{s:08d}" for s in (40, 50, 60)]
