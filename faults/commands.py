"""Made-up commands, called as the command line calls them."""

import contextlib
import io
import sys
import warnings
from pathlib import Path

import numpy as np
from cases import KEYS, TOML, VALUES, Counter, each
from hypothesis import strategies as st
from tiny import tiny

from stablepdenet import cli
from stablepdenet.errors import ConfigError, UserError
from stablepdenet.experiments import runs
from stablepdenet.experiments.results import Result, save_result
from stablepdenet.experiments.training import train_in


def command_line(folder, count):
    """Whole commands, but for the training itself, in a folder of their own: some make files by made-up names."""
    counter, precious, here = Counter(), folder / "precious.npy", folder / "here"
    here.mkdir()
    problem, config = tiny(**{"operator.width": 2, "training.steps": 10, "training.warmup": 5})
    train_in(folder / "good", problem, config)
    np.save(precious, np.ones(3))
    np.save(folder / "inputs.npy", np.ones((2, problem.inputs.size)))
    (folder / "settings.toml").write_bytes(TOML)
    rows = [{"method": "pi", "setting": "clean", "attack": "none", "metric": "relative_l2", "value": 0.1}]
    save_result(folder / "results", Result("paper", "poisson", 0, rows, {}, {}, {}, {}, []))
    (folder / "bad").mkdir()
    (folder / "bad" / "config.json").write_text('{"problem": {"name": "poisson"}, "training": 3}')
    np.save(folder / "nan.npy", np.full((2, 100), np.nan))
    there = ("good", "bad", "nowhere", "nan.npy", "precious.npy", "inputs.npy", "settings.toml", "results")
    places = [str(folder / name) for name in there]
    commands = st.sampled_from(["train", "predict", "evaluate", "report", "resume", "replay", "audit", "list", "tarin"])
    problems = st.sampled_from(["poisson", "heat", "wave", "burgers", "all", "3"])
    number = st.integers(-3, 1 << 70).map(str) | st.floats().map(str)
    anything = st.one_of(st.sampled_from(places), problems, number, st.text(max_size=12))
    setting = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES) | number).map("=".join)
    option = st.one_of(
        st.tuples(st.just("--set"), setting),
        st.tuples(st.sampled_from(["--seed", "--method", "--out", "--recipe", "--config", "--input"]), anything),
        st.tuples(st.sampled_from(["--parts", "--tests", "--eps", "--format", "-o", "--replay"]), anything),
        st.tuples(st.just("--output"), st.just(str(precious))),
        st.tuples(st.sampled_from(["--json", "--resume", "--deterministicc", "--", ""])),
    )
    drawn = st.tuples(commands, st.lists(anything, max_size=2), st.lists(option, max_size=3))
    # Whole commands that write where something lies, beside one that is drawn.
    writing = st.sampled_from(
        [
            ["predict", places[0], "--input", places[5], "--output", str(precious)],
            ["report", places[7], "--format", "md", "-o", str(precious)],
        ]
    )
    line = st.one_of(drawn, drawn, drawn, st.tuples(writing, st.just([]), st.lists(option, max_size=2)))
    changed, kept = [], files_in(folder)

    def call(words):
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["stablepdenet", *words]
        try:
            with contextlib.chdir(here), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main()
        except SystemExit as stop:
            if not isinstance(stop.code, int) or stop.code not in (0, 1, 2, 3, 4, 5, 6, 7):
                raise RuntimeError(f"exit code {stop.code!r}") from None
            if stop.code > 1 and not err.getvalue().startswith("stablepdenet: "):
                raise RuntimeError(f"no sentence: {err.getvalue()!r}") from None
            now = files_in(folder)
            touched = {path for path, data in kept.items() if now.get(path) != data}
            # What succeeded may write where it was told to, and nowhere else.
            changed.extend(touched if stop.code else touched - {Path(word) for word in words})
            for path in touched:
                path.write_bytes(kept[path])
            if stop.code:
                raise UserError(err.getvalue()) from None
        finally:
            sys.argv = argv

    def would_train(*_, **__):
        raise ConfigError("A training would begin here.")

    begin, show = runs.start, warnings.showwarning
    runs.start = would_train
    try:

        @each(line, count)
        def _(case):
            command, words, options = case
            words = [
                *([command] if isinstance(command, str) else command),
                *words,
                *(word for option in options for word in option),
            ]
            counter.check(lambda: call(words), words)

    finally:
        runs.start, warnings.showwarning = begin, show
    counter.written_over = len(changed)
    return counter


def files_in(folder):
    """What lies in a folder, but for locks."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}
