"""Configuration: the paper's values by default; unknown keys and impossible values refused by name."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.config import Config, flatten, override, parse_settings, read_toml
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import configure

BASE = Config(problem={"name": "heat"})


def test_defaults_are_the_papers():
    config = configure(make_problem("helmholtz"))
    flat = flatten(config.as_dict())
    expected = {
        "training.steps": 50_000,
        "training.warmup": 5_000,
        "training.refresh": 1_000,
        "training.learning_rate": 5e-4,
        "training.batch": 50,
        "attack.eps": 0.01,
        "attack.steps": 40,
        "method.rho": 0.10,
        "method.tau": 1e-6,
        "operator.width": 128,
        "operator.depth": 4,
    }
    assert {key: flat[key] for key in expected} == expected


def test_a_defence_without_an_attack_is_refused():
    with pytest.raises(ConfigError, match=r"attack\.steps = 0"):
        override(BASE, {"attack.steps": 0, "attack.random_start": False})
    override(BASE, {"attack.steps": 0, "attack.random_start": False, "method.name": "pi"})


def test_later_sources_win(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("seed = 3\n[training]\nsteps = 6000\nbatch = 7\n[attack]\neps = 0.2\n")
    config = override(BASE, {**read_toml(file), **parse_settings(["training.steps=2e4", "method.name=adv"])})
    assert (config.seed, config.training.steps, config.training.batch) == (3, 20_000, 7)
    assert (config.attack.eps, config.method.name) == (0.2, "adv")


def test_settings_are_read_as_toml_values_or_text():
    assert parse_settings(["a.b=1", "c=true", "d=pi", "e = 0.5", "f=x=y"]) == {
        "a.b": 1,
        "c": True,
        "d": "pi",
        "e": 0.5,
        "f": "x=y",
    }


@pytest.mark.parametrize(
    "setting, word",
    [
        ("training.step=5", "did you mean 'training.steps'"),
        ("optimizer.lr=5", "optimizer.lr"),
        ("problem.name=heat", "problem.name"),
        ("training=5", "'training'"),
        ("training.steps=0", "training.steps = 0"),
        ("training.steps=1.5", "training.steps = 1.5"),
        ("training.steps=many", "training.steps = 'many'"),
        ("training.steps=true", "training.steps = True"),
        ('training.steps="60000"', "training.steps = '60000'"),
        ("training.steps=nan", "training.steps = nan"),
        ("training.steps=2147483648", "training.steps = 2147483648"),
        ("training.warmup=-1", "training.warmup"),
        ("training.learning_rate=0", "training.learning_rate"),
        ("training.batch=100000", "training.batch = 100000 is larger"),
        ("attack.eps=-0.1", "attack.eps = -0.1"),
        ("attack.eps=nan", "attack.eps = nan"),
        ("attack.eps=inf", "attack.eps = inf"),
        ("attack.eps=true", "attack.eps = True"),
        ('attack.eps="0.1"', "attack.eps = '0.1'"),
        ("attack.random_start=1", "attack.random_start"),
        ("method.rho=1", "method.rho"),
        ("method.name=magic", "method.name = 'magic'"),
        ("operator.depth=1", "operator.depth"),
        ("operator.width=[1]", "operator.width"),
        ("training.warmup=50000", "training.warmup = 50000"),
        ("operator.tanh_trunk=1", "operator.tanh_trunk"),
        ("operator.refinements=101", "operator.refinements = 101"),
        ("seed=-1", "seed = -1"),
        ("seed=4294967296", "seed = 4294967296"),
        ("recipe=best", "recipe = 'best' must be 'paper', 'plain' or 'robust'."),
        ("training.steps", "section.key=value"),
        ("=5", "section.key=value"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence_that_names_it(setting, word):
    with pytest.raises(ConfigError) as caught:
        override(BASE, parse_settings([setting]))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_sentence_says_what_the_value_must_be():
    with pytest.raises(ConfigError, match=r"^training\.steps = 0 must be greater than or equal to 1\.$"):
        override(BASE, {"training.steps": 0})


def test_whole_numbers_and_reals_are_stored_as_such():
    config = override(BASE, {"training.batch": 20.0, "attack.eps": 1})
    assert (repr(config.training.batch), repr(config.attack.eps)) == ("20", "1.0")


def test_a_replaced_part_is_checked_too():
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        dataclasses.replace(BASE, seed=-1)
    with pytest.raises(ConfigError, match="is larger than"):
        dataclasses.replace(BASE, training=dataclasses.replace(BASE.training, functions=1))


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"operator.embedding": "waves"}, "sees the coordinates"),
        ({"operator.tanh_trunk": True}, "last layer"),
        ({"operator.refinements": 1}, "no basis"),
        ({"operator.constraints": "hard"}, "no basis"),
    ],
)
def test_what_a_modified_operator_lacks_is_refused(changes, word):
    with pytest.raises(ConfigError, match=word):
        override(BASE, {"operator.kind": "modified", **changes})


def test_the_command_line_starts_without_pydantic():
    code = "import sys, stablepdenet.cli; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("content", [b"training = [", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_broken_file_is_refused(tmp_path, content):
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"c\.toml"):
        read_toml(file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000, "9" * 400, '"' + "x" * 5000 + '"'])
@pytest.mark.parametrize("key", ["seed", "attack.eps", "operator.kind", "attack.random_start"])
def test_values_too_long_to_print_are_refused_in_a_short_sentence(key, text):
    with pytest.raises(ConfigError, match=rf"^{key} = ") as caught:
        override(Config(problem={"name": "poisson"}), parse_settings([f"{key}={text}"]))
    assert len(str(caught.value)) < 300
