"""Campaigns: what they consist of, and that killing one changes nothing but its duration."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from stablepdenet.auditing.audit import PARTS
from stablepdenet.cli.campaign import CampaignProgress
from stablepdenet.errors import CheckpointError, ConfigError, UserError
from stablepdenet.experiments.campaign import FailedJob, Worker, make_jobs, parse_seeds
from stablepdenet.experiments.campaign.job import run_job
from stablepdenet.experiments.config import override
from stablepdenet.experiments.results import Result, load_fields, load_results, save_result
from stablepdenet.experiments.runs import resolve
from stablepdenet.progress import silent

TINY = {
    "operator.width": 8,
    "training.steps": 120,
    "training.warmup": 40,
    "training.refresh": 20,
    "training.validate_every": 20,
    "training.checkpoint_every": 20,
    "attack.steps": 2,
}
COMMAND = [
    *(sys.executable, "-m", "stablepdenet", "reproduce", "poisson", "--seeds=2", "--budget=quick", "--workers=2"),
    *(f"--set={key}={value}" for key, value in TINY.items()),
]


def start(out):
    # A group of its own, so that a kill reaches the workers as it does in a terminal.
    command = [*COMMAND, f"--out={out}"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def logged(out):
    """Lines of all training logs so far."""
    return sum(len(path.read_text().splitlines()) - 1 for path in out.glob("runs/*/*/*/*/log.csv") if path.exists())


def tables(out):
    """All that must not depend on interruptions: rows, and curves but for their seconds."""
    found = {}
    for r in load_results(out):
        curves = {m: {k: v for k, v in c.items() if k != "seconds"} for m, c in r.curves.items()}
        found[r.recipe, r.problem, r.seed] = (r.rows, curves)
    return found


@pytest.mark.long
def test_a_campaign_killed_three_times_gives_the_same_table(tmp_path):
    whole = start(tmp_path / "whole")
    assert whole.wait(240) == 0, whole.stderr.read()
    # Forty lines are logged in all; where in between it is killed is left to chance, but to the same in every run.
    rng, killed = random.Random(0), 0
    moments = [rng.randint(1, 8), rng.randint(9, 18), rng.randint(20, 34)]
    for number, moment in enumerate(moments):
        campaign = start(tmp_path / "cut")
        while logged(tmp_path / "cut") < moment and campaign.poll() is None:
            time.sleep(0.02)
        if campaign.poll() is None:
            killed += 1
            # The whole group at once, then the leader alone, whose workers must notice by themselves, then politely.
            how = (os.killpg, os.kill, os.kill)[number]
            how(campaign.pid, (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)[number])
        campaign.wait(60)
    assert killed == 3, f"it was over before it could be killed at {moments}"
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
    for wrong in ("", "0", "a", "1,1", "4-2", "1-2-3", "-1", "5000000000-5000000001", "9999999999", "1-,2"):
        with pytest.raises(ConfigError, match="--seeds"):
            parse_seeds(wrong)


def test_a_variation_never_passes_for_the_paper(tmp_path):
    names = {
        make_jobs(["heat"], [0], budget, changes, tmp_path)[0][0].recipe
        for budget in ("paper", "quick")
        for changes in ({}, {"attack.eps": 0.1}, {"attack.eps": 0.2})
    }
    assert len(names) == 6
    with pytest.raises(ConfigError, match="--budget"):
        make_jobs(["heat"], [0], "huge", {}, tmp_path)
    with pytest.raises(ConfigError, match=r"method.name is for a campaign"):
        make_jobs(["heat"], [0], "paper", {"method.name": "pi"}, tmp_path)
    many = {f"training.{key}": 7 for key in ("batch", "log_every", "validation", "checkpoints_kept", "functions")}
    with pytest.raises(ConfigError, match="fewer settings"):
        make_jobs(["heat"], [0], "paper", {**many, **TINY}, tmp_path)
    # One value, one name.
    recipes = [make_jobs(["heat"], [0], "paper", {"training.steps": n}, tmp_path)[0][0].recipe for n in (7000, 7000.0)]
    assert recipes[0] == recipes[1]
    # Another equation is another problem.
    job = make_jobs(["burgers"], [0], "paper", {"problem.viscosity": 0.02}, tmp_path)[0][0]
    assert job.path.parts[-2] == "burgers[viscosity=0.02]"


def result_of(job, settings, rows=()):
    return Result(job.recipe, job.label, job.seed, list(rows), {"pi": settings}, {}, {}, {}, [])


def test_results_of_other_settings_are_not_taken_for_these(tmp_path):
    job = make_jobs(["heat"], [1], "paper", {}, tmp_path)[0][0]
    _, config = resolve("heat", {"method.name": "pi", "seed": 1})
    for changes in ({}, {"attack.eps": 0.07}):
        for recipe in (job.recipe, job.recipe + "-last"):
            save_result(
                tmp_path, dataclasses.replace(result_of(job, override(config, changes).as_dict()), recipe=recipe)
            )
        if changes:
            with pytest.raises(ConfigError, match=r"attack.eps = 0.07, not 0.05"):
                make_jobs(["heat"], [1], "paper", {}, tmp_path)
        else:
            assert make_jobs(["heat"], [1], "paper", {}, tmp_path)[0][0].done


def test_time_left_counts_what_was_seen_and_survives_a_job_that_another_campaign_did(tmp_path, capsys):
    jobs, steps = make_jobs(["heat"], [0, 1], "paper", {}, tmp_path)
    progress = CampaignProgress(jobs, steps)
    total = steps["heat"]
    # The first seed resumes at half of its steps: these took no time here.
    process = subprocess.Popen([sys.executable, "-c", ""], text=True)
    process.wait()
    worker = Worker(jobs[0], 0, process, stage="pi", number=1, steps=total // 2)
    progress._look(worker, 0.0)
    worker.steps += 1000
    progress._look(worker, 10.0)
    assert progress.seen["heat"] == (10.0, 1000)
    left = 0.01 * (total - worker.steps + total) / 60
    assert progress._time_left([worker], {}) == f", about {left:.0f} min left"
    for recipe in ("paper", "paper-last"):
        save_result(tmp_path, dataclasses.replace(result_of(jobs[1], {}), recipe=recipe))
    progress([worker], {"heat seed 5": FailedJob("It broke.", 6)})
    shown = capsys.readouterr().err
    assert "1 of 2 done, 1 failed" in shown
    assert "heat seed 5 failed: It broke." in shown


def test_an_audit_that_lacks_something_is_no_result(tmp_path, monkeypatch):
    job = make_jobs(["poisson"], [0], "quick", TINY, tmp_path)[0][0]

    def broken(session):
        yield "broken", lambda: (_ for _ in ()).throw(MemoryError("no room"))

    monkeypatch.setitem(PARTS, "lipschitz", broken)
    with pytest.raises(UserError, match="no room"):
        run_job(job, silent)
    assert not job.done
    assert not list(tmp_path.glob("paper*/**/*.json"))


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": "other"}', "not json"])
def test_a_foreign_result_is_named(tmp_path, content):
    with pytest.raises(CheckpointError, match="holds no results"):
        load_results(tmp_path)
    path = tmp_path / "paper" / "heat" / "seed-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(CheckpointError, match="is not a result"):
        load_results(tmp_path)


def test_a_wrong_name_is_refused_before_any_training(tmp_path):
    command = [sys.executable, "-m", "stablepdenet", "reproduce", "poison", f"--out={tmp_path / 'results'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "poison" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
    assert not ended.stdout
