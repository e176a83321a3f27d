"""Campaigns: what they consist of, and that killing one changes nothing but its duration."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from stablepdenet.campaign import make_jobs, parse_seeds
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.results import load_fields, load_results

TINY = {
    "operator.width": 8,
    "operator.depth": 2,
    "training.steps": 120,
    "training.warmup": 40,
    "training.refresh": 20,
    "training.validate_every": 20,
    "training.checkpoint_every": 20,
    "training.log_every": 10,
    "training.functions": 20,
    "training.batch": 20,
    "attack.steps": 2,
}
COMMAND = [
    *(sys.executable, "-m", "stablepdenet", "reproduce", "poisson", "--seeds=2", "--budget=quick", "--workers=2"),
    *(f"--set={key}={value}" for key, value in TINY.items()),
]


def start(out):
    # A group of its own, so that a kill reaches the workers as it does in a terminal.
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    return subprocess.Popen([*COMMAND, f"--out={out}"], **pipes)


def tables(out):
    return {(r.recipe, r.problem, r.seed): r.rows for r in load_results(out)}


def test_a_campaign_killed_three_times_gives_the_same_table(tmp_path):
    whole = start(tmp_path / "whole")
    began = time.monotonic()
    assert whole.wait(240) == 0, whole.stderr.read()
    duration = time.monotonic() - began
    pauses = random.Random(5)
    for number in range(3):
        campaign = start(tmp_path / "cut")
        time.sleep(pauses.uniform(0.2, 0.6) * duration)
        if campaign.poll() is None:
            # The whole group at once, then the leader alone, whose workers must notice by themselves, then politely.
            how = (os.killpg, os.kill, os.kill)[number]
            how(campaign.pid, (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)[number])
        campaign.wait(60)
    assert start(tmp_path / "cut").wait(240) == 0
    undisturbed, cut = tables(tmp_path / "whole"), tables(tmp_path / "cut")
    assert len(undisturbed) == 4, "two seeds, best and last parameters"
    assert cut == undisturbed
    result = load_results(tmp_path / "whole")[0]
    assert set(result.curves) == set(result.settings) == set(result.seconds) == {"pi", "adv", "stable"}
    assert result.curves["adv"]["step"] == [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    kept = [
        fields for result in load_results(tmp_path / "whole") if (fields := load_fields(tmp_path / "whole", result))
    ]
    assert len(kept) == 1, "the first seed's, with its best parameters"
    fields = kept[0]
    assert fields["stable.0.05"].shape == fields["reference.clean"].shape == (100,)

    # Nothing is left to do, and that is soon found out.
    again = start(tmp_path / "whole")
    assert again.wait(60) == 0
    assert tables(tmp_path / "whole") == undisturbed


def test_seeds_are_a_number_a_list_or_a_range():
    assert parse_seeds("5") == [0, 1, 2, 3, 4]
    assert parse_seeds("3,4") == [3, 4]
    assert parse_seeds("2-4,7") == [2, 3, 4, 7]
    for wrong in ("", "0", "a", "1,1", "4-2", "1-2-3", "-1"):
        with pytest.raises(ConfigError, match="--seeds"):
            parse_seeds(wrong)


def test_a_variation_never_passes_for_the_paper(tmp_path):
    names = {
        make_jobs(["heat"], [0], budget, changes, tmp_path)[0].recipe
        for budget in ("paper", "quick")
        for changes in ({}, {"attack.eps": 0.1}, {"attack.eps": 0.2})
    }
    assert len(names) == 6
    with pytest.raises(ConfigError, match="--budget"):
        make_jobs(["heat"], [0], "huge", {}, tmp_path)
    with pytest.raises(ConfigError, match="slash"):
        make_jobs(["heat"], [0], "paper", {"method.name": "a/b"}, tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": "other"}', "not json"])
def test_a_foreign_result_is_named(tmp_path, content):
    with pytest.raises(CheckpointError, match="holds no results"):
        load_results(tmp_path)
    path = tmp_path / "paper" / "heat" / "seed-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(CheckpointError, match=r"seed-0|heat"):
        load_results(tmp_path)


def test_a_wrong_name_is_refused_before_any_training(tmp_path):
    command = [sys.executable, "-m", "stablepdenet", "reproduce", "poison", f"--out={tmp_path / 'results'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "poison" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
    assert not ended.stdout
