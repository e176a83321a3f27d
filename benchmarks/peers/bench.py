"""This library beside its peers: the same step from the same weights, alternating on one pinned core.

    python benchmarks/peers/bench.py --peers .venv-peers/bin/python --out runs/bench          (or: make bench)

Every contender runs in a process of its own and starts from one exported case. Where its loss or its gradient is not
ours, nothing is timed. Ratios are taken within a round, then their median.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # what all benchmarks share

import report
from common import pin, quartiles, stop_in_time
from contenders import CONTENDERS, KINDS, OURS, PRODUCTS, Contender, Failure

PROBLEMS = ("poisson", "heat", "burgers", "helmholtz-3.5pi")
# Gradients are compared as well, since a step could leave part of them out: in float32 they keep fewer digits.
TOLERANCE = {"loss": 1e-4, "gradient": 1e-3}
MINUTES = 20


def agreement(contenders):
    """The largest relative difference from our loss, or a Failure that names who is off."""
    ours, worst = contenders[0].told, 0.0
    for contender in contenders[1:]:
        if contender.name in PRODUCTS:
            continue  # not a step
        for key, value in ours.items():
            off = abs(contender.told[key] - value) / abs(value)
            worst = max(worst, off if key == "loss" else 0.0)
            if not off <= TOLERANCE[key]:
                raise Failure(
                    f"{contender.label} has another {key} than ours at equal weights: {contender.told[key]:.7g}, "
                    f"not {value:.7g}; nothing was timed."
                )
    return worst


def measure(problem, kind, case, options):
    """{contender: row} of one kind of step on one problem."""
    contenders = []
    try:
        for name in KINDS[kind]:
            contenders.append(Contender(name, kind, case, options))
            contenders[-1].begin()
        worst = agreement(contenders)
        if kind != "limit":
            print(f"{problem}, {kind}: losses agree to {worst:.0e}.", file=sys.stderr)
        for contender in contenders:
            contender.choose_steps(options.budget)
        until = time.monotonic() + options.seconds
        for number in range(options.rounds):
            # In another order each time, so that nobody always follows the same neighbour.
            turn = number % len(contenders)
            for contender in contenders[turn:] + contenders[:turn]:
                if number < 3 or contender.spent < options.seconds / len(contenders):
                    contender.round(number)
            if number >= 2 and time.monotonic() > until:
                break
        return {contender.name: row(contender, contenders[0]) for contender in contenders}
    finally:
        for contender in contenders:
            contender.end()


def peak_with_kept_programs(case, options):
    """Our largest memory in MB where the command line's cache already holds the program, as from a second run on."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            again = Contender(OURS, "pi", case, options, {"JAX_COMPILATION_CACHE_DIR": folder})
            try:
                again.begin()
            finally:
                again.end()
    return again.peak / 1e6


def row(contender, ours):
    """Numbers of one contender. A slow one leaves after a few rounds, which `steps` shows."""
    times = sorted(contender.times.values())
    middle, low, high = quartiles(times)
    return {
        "ms": 1e3 * middle,
        "ms_low": 1e3 * low,
        "ms_high": 1e3 * high,
        "ratio": statistics.median(seconds / ours.times[number] for number, seconds in contender.times.items()),
        "peak_mb": contender.peak / 1e6,
        "steps": contender.steps * len(times),
        "parts": contender.parts,
        **contender.told,
    }


def run(options):
    """{kind: {problem: {contender: row}}}."""
    if not options.peers.exists():
        raise Failure(f"The peers' environment is missing: there is no {options.peers}; run `make bench`.")
    # Only now: loading jax takes seconds.
    from export import export

    results = {kind: {} for kind in options.kinds}
    with tempfile.TemporaryDirectory() as folder:
        for problem in options.problems:
            case = Path(folder) / f"{problem}.npz"
            export(problem, case)
            for kind in options.kinds:
                results[kind][problem] = measure(problem, kind, case, options)
            if "pi" in results:
                results["pi"][problem][OURS]["peak_kept_mb"] = peak_with_kept_programs(case, options)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help="Python of the peers")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for peers.json and peers.png")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.3, help="seconds for one contender's part of a round")
    parser.add_argument("--seconds", type=float, default=20.0, help="for all rounds of one problem and kind")
    options = parser.parse_args()
    stop_in_time(MINUTES)
    pin()
    try:
        results = run(options)
    except Failure as failure:
        sys.exit(str(failure))
    missed = report.missed(results, OURS)
    labels = {name: label for name, (label, _, _) in CONTENDERS.items()}
    report.write(results, missed, labels, OURS, options.out)
    sys.exit(f"missed: {'; '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
