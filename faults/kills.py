"""Kills at random moments: what is left must be readable, lose no more than one interval, and end in the same bytes."""

import csv
import os
import random
import select
import shutil
import signal
import time
import warnings
from pathlib import Path

from stablepdenet.system.compilation import keep_compiled

keep_compiled()

from tiny import INTERVAL, tiny

from stablepdenet.training import checkpoint

# A life is cut at a moment of its start (imports are done, programs are loaded), of its training, or soon after it has
# told of a save, which takes about that long.
STARTING, INSIDE, AT_MOST, SAVE = 0.1, 0.4, 0.25, 0.01
SAVING, SAVED = b"s", b"e"


def life(folder, pipe):
    """In a child: trains on, telling of every step and every save, to the end."""
    from stablepdenet.experiments.training import train_in

    save = checkpoint.save

    def watched(*arguments, **options):
        os.write(pipe, SAVING)
        found = save(*arguments, **options)
        os.write(pipe, SAVED)
        return found

    checkpoint.save = watched
    problem, config = tiny()
    train_in(folder, problem, config, progress=lambda report: os.write(pipe, b"%d " % report.done))


def start(folder):
    """A child that trains, and what it tells."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX fears its threads, which it has not started yet
        child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            life(folder, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return child, reading


def cut(folder, rng, longest=AT_MOST):
    """One life, cut at a moment that `rng` decides if it is there: what it told, and whether it was killed."""
    child, reading = start(folder)
    told, deadline = b"", time.monotonic() + 120
    moment = time.monotonic() + rng.uniform(0.0, 1.0) if rng and rng.random() < STARTING else None
    save = rng.randint(1, 5) if rng and rng.random() < INSIDE else None
    while True:
        wait = max(0.0, (moment or deadline) - time.monotonic())
        ready, _, _ = select.select([reading], [], [], wait)
        if not ready:
            os.kill(child, signal.SIGKILL)
            if moment is None:
                raise SystemExit(f"A training in {folder} hangs.")
            break
        data = os.read(reading, 4096)
        if not data:
            break
        told += data
        if rng and moment is None and (save is None or told.count(SAVING) >= save):
            moment = time.monotonic() + rng.uniform(0.0, longest if save is None else SAVE)
    _, status = os.waitpid(child, 0)
    while data := os.read(reading, 4096):
        told += data
    os.close(reading)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"A training in {folder} failed by itself.")
    return told, os.WIFSIGNALED(status)


def newest(folder):
    """The step of the newest good checkpoint, and whether anything is unreadable. (Reading needs no JAX.)"""
    found = checkpoint.existing(folder / "checkpoints")
    readable = []
    for path in found:
        try:
            checkpoint.read_files(path)
            readable.append(int(path.name.removeprefix("step-")))
        except Exception as error:
            print(f"  unreadable: {error}")
    return (readable or [0])[-1], len(readable) < len(found)


def log_of(folder):
    rows = list(csv.DictReader((folder / "log.csv").open()))
    return [{**row, "seconds": ""} for row in rows]


def run(kills, folder, longest=AT_MOST, seed=0):
    """As many kills as asked for, over as many trainings as that takes; no life is longer than `longest` seconds."""
    rng, folder = random.Random(seed), Path(folder)
    whole = folder / "whole"
    cut(whole, None)
    wanted = {path.name: path.read_bytes() for path in checkpoint.existing(whole / "checkpoints")[-1].iterdir()}
    counts = dict.fromkeys(("kills", "inside_a_save", "trainings", "unreadable", "lost_more", "other_bytes"), 0)
    while counts["kills"] < kills:
        own = folder / f"run-{counts['trainings']}"
        killed, reached = True, 0
        while killed:
            told, killed = cut(own, rng, longest)
            if not killed:
                break
            counts["kills"] += 1
            counts["inside_a_save"] += told.rfind(SAVING) > told.rfind(SAVED)
            steps = [int(word) for word in told.replace(SAVING, b" ").replace(SAVED, b" ").split()]
            step, damaged = newest(own)
            counts["unreadable"] += damaged
            # Over all lives: one that begins at an earlier state than the last one left has lost something too.
            reached = max(reached, *steps, step)
            counts["lost_more"] += reached - step > INTERVAL
        last = checkpoint.existing(own / "checkpoints")[-1]
        same = {path.name: path.read_bytes() for path in last.iterdir()} == wanted and log_of(own) == log_of(whole)
        counts["other_bytes"] += not same
        counts["trainings"] += 1
        shutil.rmtree(own)
    return counts
