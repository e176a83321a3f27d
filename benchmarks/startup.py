"""How long until something useful happens, each time in a fresh process on one pinned core:

    python benchmarks/startup.py --out runs/bench            (or: make bench-startup)

- commands: from process start to exit.
- first step: from the start of `stablepdenet train PROBLEM` with training.steps=1 to its progress line on stderr, which
  comes when the step is done, logged and checkpointed. The row `defended` is the first step on attacked inputs, after a
  warm-up of one step and a calibration. `exit` is the end of the same process, which also measures the clean error.
- empty and kept: without compiled programs, and with those that an earlier run of the same command kept.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from common import pin, save, stop_in_time

COMMAND = str(Path(sys.executable).with_name("stablepdenet"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import stablepdenet": [sys.executable, "-c", "import stablepdenet"],
    "stablepdenet --help": [COMMAND, "--help"],
    "stablepdenet list": [COMMAND, "list"],
}
# Steps, and what else to tell `train`. The defence is shown on the cheapest problem alone: it compiles for long.
PLAIN = (1, "--method", "pi")
DEFENDED = (2, "--method", "stable", "--set", "training.warmup=1")
TRAININGS = {
    **{problem: (problem, *PLAIN) for problem in ("poisson", "heat", "burgers", "helmholtz-3.5pi")},
    "poisson, defended": ("poisson", *DEFENDED),
}
HELP, CACHED = 0.4, 5.0  # seconds: the bars for --help and for a problem's first step with kept programs


def command_seconds(words, environment):
    began = time.perf_counter()
    subprocess.run(words, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def train_seconds(problem, steps, *settings, environment):
    """Seconds to the last step's progress line, which plain output always has, and to the process's exit."""
    with tempfile.TemporaryDirectory() as folder:
        words = [COMMAND, "train", problem, "--out", f"{folder}/run", "--set", f"training.steps={steps}", *settings]
        stepped, lines = None, []
        began = time.perf_counter()
        with subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            for line in process.stderr:
                lines.append(line)
                if f" {steps}/{steps} " in line:
                    stepped = time.perf_counter() - began
        ended = time.perf_counter() - began
    if process.returncode or stepped is None:
        sys.exit(f"`{' '.join(words[1:])}` showed no step: {''.join(lines[-3:]).strip()}")
    return stepped, ended


def measure_training(training, empty, kept, environment):
    """{cache: {event: seconds of every run}}; each run with an empty cache has a new one, the last of which is kept."""
    rows = {"empty": {"step": [], "exit": []}, "kept": {"step": [], "exit": []}}

    def run(state, cache):
        stepped, ended = train_seconds(*training, environment={**environment, "XDG_CACHE_HOME": cache})
        rows[state]["step"].append(stepped)
        rows[state]["exit"].append(ended)

    for number in range(empty):
        with tempfile.TemporaryDirectory() as cache:
            run("empty", cache)
            for _ in range(kept if number == empty - 1 else 0):
                run("kept", cache)
    return rows


def saved(rows):
    """The seconds to the first step that kept programs save: what compiling takes, less reading."""
    return median(rows["empty"]["step"]) - median(rows["kept"]["step"])


def missed(commands, trainings):
    """The bars that these results miss, in words."""
    help_seconds = median(commands["stablepdenet --help"])
    words = [f"--help {help_seconds:.2f} s, not {HELP:g} s"] if help_seconds >= HELP else []
    steps = {name: median(rows["kept"]["step"]) for name, rows in trainings.items()}
    return words + [f"first step of {name} {s:.1f} s, not {CACHED:g} s" for name, s in steps.items() if s >= CACHED]


def show(commands, trainings):
    def cell(times):
        return f"{median(times):6.2f} ({min(times):.2f} - {max(times):.2f})"

    print("Median seconds of fresh processes (least - most)\n")
    for name, times in commands.items():
        print(f"{name:22}{cell(times)}")
    columns = [(state, event) for state in ("empty", "kept") for event in ("step", "exit")]
    print(
        "\nstablepdenet train     "
        + "".join(f"{f'first {e}' if e == 'step' else e}, {s} cache".ljust(25) for s, e in columns)
        + "saved"
    )
    for name, rows in trainings.items():
        print(f"{name:22}" + "".join(f"{cell(rows[s][e]):25}" for s, e in columns) + f"{saved(rows):6.2f}")


def picture(commands, trainings, path):
    """Horizontal bars in seconds; a tick at the end of the process where it goes on after the first step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = len(commands) + len(trainings)
    figure, axis = pyplot.subplots(figsize=(7.5, 0.42 * count + 1.2), layout="constrained")
    spent = [median(times) for times in commands.values()]
    drawn = axis.barh(range(len(commands)), spent, 0.35, color="0.6", label="command, to its exit")
    axis.bar_label(drawn, fmt="%.2f", padding=3)
    for state, colour, shift in (("empty", "#E69F00", -0.19), ("kept", "#0072B2", 0.19)):
        places = [len(commands) + i + shift for i in range(len(trainings))]
        steps = [median(rows[state]["step"]) for rows in trainings.values()]
        exits = [median(rows[state]["exit"]) for rows in trainings.values()]
        axis.barh(places, steps, 0.35, color=colour, label=f"train, first step, {state} cache")
        axis.plot(
            exits, places, "|", color=colour, markersize=9, markeredgewidth=2, label=f"train, exit, {state} cache"
        )
    axis.set_yticks(range(count), [*commands, *(f"train {name}" for name in trainings)])
    axis.invert_yaxis()
    axis.set(xlabel="seconds from process start")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for startup.json and startup.png")
    parser.add_argument("--trainings", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--rounds", type=int, default=7, help="processes for each command")
    parser.add_argument("--empty", type=int, default=2, help="trainings with an empty cache, at least 1")
    parser.add_argument("--kept", type=int, default=3, help="trainings with kept programs, at least 1")
    options = parser.parse_args()
    pin()
    stop_in_time(20)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_COMPILATION_CACHE")}
    commands = {name: [] for name in COMMANDS}
    for number in range(options.rounds + 1):
        for name, words in COMMANDS.items():
            spent = command_seconds(words, environment)
            # The first of each reads files that the system then has in memory.
            commands[name] += [spent] if number else []
    trainings = {}
    for name in options.trainings:
        trainings[name] = measure_training(TRAININGS[name], options.empty, options.kept, environment)
        print(f"{name} is done.", file=sys.stderr)
    words = missed(commands, trainings)
    compiling = {name: saved(rows) for name, rows in trainings.items()}
    bars = {"stablepdenet --help": HELP, "first step, kept": CACHED}
    content = {"commands": commands, "trainings": trainings, "saved": compiling, "bars": bars, "missed": words}
    save(options.out / "startup.json", content)
    show(commands, trainings)
    picture(commands, trainings, options.out / "startup.png")
    print(f"\nWritten: {options.out / 'startup.json'}, {options.out / 'startup.png'}")
    sys.exit(f"missed: {'; '.join(words)}" if words else 0)


if __name__ == "__main__":
    main()
