"""The tables of docs/robust.md and docs/defences.md, for `reproduction.py`."""

import json
import statistics

from conditions import BOTH, COMMON, OWN, above, has_network
from document import DOCS, markdown

from stablepdenet.experiments.campaign.job import FEWER
from stablepdenet.experiments.report import names, paper
from stablepdenet.experiments.report.cells import as_bound
from stablepdenet.experiments.report.summary import Place

SETTINGS = (("none", "clean"), ("common", "0.05"), ("common", "0.10"))
WORST = ("whitebox", "0.10")
COLUMNS = ("clean", "common, 0.05", "common, 0.10")
# Inputs of the search in rows that do not say so.
SEARCHED = 20
UNDEFENDED = (
    "Attack: one common perturbation for all, found against the undefended network; own worst case: each operator's "
    "own, found by ascent on its true error."
)
REFINED = "+refined"
DEFENCES = {
    "pi": "none: clean inputs",
    "noise": "noise",
    "fgsm": "FGSM",
    "adv": "PGD (AdvPI)",
    "trades": "TRADES",
    "jacobian": "Jacobian penalty",
    "increment": "increment penalty",
    "spectral": "spectral norms",
    "stable": "StablePDENet",
    "tangent": "tangent residual",
    "robust": "robust",
}


def paper_of(problem, setting):
    """The paper's StablePDENet, as it is printed."""
    return f"{paper.tables()['relative_l2'][problem][setting][-1]:.2g}"


def robust(summary, results):
    """Errors and gains of the recipe robust, with the paper's StablePDENet below each."""
    columns = [
        ("clean", "none", "clean"),
        ("common, 0.05", "common", "0.05"),
        ("common, 0.10", "common", "0.10"),
        ("own worst case, 0.05", "whitebox", "0.05"),
        ("own worst case, 0.10", "whitebox", "0.10"),
    ]
    rows = []
    own = [result for result in results if result.recipe == "robust"]
    for problem in names.problems_in_order({result.problem for result in own}):
        found = [summary.get(Place("robust", problem, "robust", *case, "relative_l2")) for _, *case in columns]
        gain = summary[Place("robust", problem, "robust", "common", "0.05", "kappa_E")]
        cells = [f"{mean.mean:.1e}" if mean else "–" for mean in found]
        seeds = sum(result.problem == problem for result in own)
        made = "yes: trained, refined" if has_network(results, "robust", problem) else "no: solved"
        title = [names.problem_title(problem), made, str(seeds)]
        rows.append([*title, *cells, certified(summary, problem), f"{gain.mean:.1e}"])
        theirs = [paper_of(problem, setting) for _, _, setting in columns[:3]]
        gains = paper.tables()["response_gains"].get(problem)
        printed = f"{gains['0.05']['models'][-1][1]:.2g}" if gains else "–"
        rows.append(["the paper's StablePDENet", "yes: trained", "5", *theirs, "–", "–", "–", printed])
    header = ["", "a network?", "seeds", *(title for title, *_ in columns), "certified, 0.10", "κ_E, common, 0.05"]
    return above(markdown(header, rows), results, f"{BOTH} ({FEWER} inputs).", "robust")


def certified(summary, problem, setting="0.10"):
    """The upper bound of the worst case, called a rounding bound where most of it is what float32 may add."""
    whole, rounding = (
        summary.get(Place("robust", problem, "robust", "certified", setting, metric))
        for metric in ("relative_l2", "rounding")
    )
    if whole is None:
        return "–"
    text = as_bound(whole.mean, f"{whole.mean:.1e}")
    return f"{text} (rounding bound)" if rounding.mean > 0.5 * whole.mean else text


def spread_table():
    """How errors are spread over the test inputs, from docs/spread.json."""
    stored, rows = json.loads((DOCS / "spread.json").read_text(encoding="utf-8")), []
    for problem, found in stored["results"].items():
        for method, settings in found["errors"].items():
            for setting, numbers in settings.items():
                cells = [f"{numbers[key]:.1e}" for key in ("pooled", "median", "p99", "max")]
                kind = "clean" if setting == "clean" else f"common, {setting}"
                first = [names.problem_title(problem) if (method, setting) == ("stable", "clean") else ""]
                first.append(names.method_title(method) if setting == "clean" else "")
                rows.append([*first, kind, *cells, f"{numbers['share_of_worst']:.0%}"])
    header = ["", "", "", "pooled", "median", "99th percentile", "largest", "squared error in the worst 1 %"]
    return markdown(header, rows)


def sampling_table():
    """How far the solutions of interpolated inputs are from those of the functions themselves."""
    stored = json.loads((DOCS / "spread.json").read_text(encoding="utf-8"))
    rows = []
    for name, found in stored["results"].items():
        if found["sampling"]:
            apart = [found["sampling"][key] for key in ("pooled", "median", "max")]
            numbers = [*apart, found["errors"]["robust"]["clean"]["pooled"]]
            rows.append([names.problem_title(name), *(f"{number:.1e}" for number in numbers)])
    return markdown(["", "pooled", "median", "largest", "robust's own clean error, pooled"], rows)


def certificates(results):
    """What share of the certified worst case the white-box attack finds: over the seeds, the mean and the least."""
    rows = []
    for problem, own in own_results(results, "robust").items():
        found = {
            setting: [
                {r["metric"]: r["value"] for r in result.rows if (r["attack"], r["setting"]) == ("certified", setting)}
                for result in own
            ]
            for setting in ("0.05", "0.10")
        }
        if not found["0.05"][0]:
            continue
        cells = []
        for seeds in found.values():
            mean, least = ([seed[f"reached_{name}"] for seed in seeds] for name in ("mean", "min"))
            cells += [f"{statistics.fmean(mean):.3f}", f"{min(least):.3f}"]
        rows.append([names.problem_title(problem), *cells])
    table = markdown(["", "ε = 0.05, mean", "least", "ε = 0.10, mean", "least"], rows)
    return above(table, [r for r in results if not has_network(results, "robust", r.problem)], OWN, "robust")


def refined(summary, results):
    """Plain PI-DeepONets with Gauss-Newton steps after them."""
    rows = []
    own = [result for result in results if result.recipe == "refined"]
    for problem in names.problems_in_order({result.problem for result in own}):
        seeds = sum(result.problem == problem for result in own)
        for attack, setting in SETTINGS:
            places = [("refined", "pi"), ("refined", "pi-refined-1"), ("refined", "pi-refined-3")]
            means = [summary[Place(recipe, problem, name, attack, setting, "relative_l2")] for recipe, name in places]
            title = f"{names.problem_title(problem)} ({seeds})" if attack == "none" else ""
            kind = "clean" if attack == "none" else f"ε = {setting}"
            rows.append([title, kind, *(f"{mean.mean:.2g}" for mean in means), paper_of(problem, setting)])
    header = ["problem (seeds)", "", "not refined", "one step", "three steps", "the paper's StablePDENet"]
    return above(markdown(header, rows), results, COMMON, "refined")


def columns(results):
    """The columns of errors: worst cases were searched on as many inputs as the rows say, from the first on."""
    numbers = {int(next((r["value"] for r in own.rows if r["metric"] == "inputs"), SEARCHED)) for own in results}
    return [*COLUMNS, f"own worst case, 0.10 ({' or '.join(map(str, sorted(numbers)))} inputs)"]


def short(mean):
    """Two digits, or a dash for what was not measured."""
    return f"{mean.mean:.2g}" if mean else "–"


def own_results(results, recipe):
    """Those of one recipe, by problem."""
    own = [result for result in results if result.recipe == recipe]
    return {name: [r for r in own if r.problem == name] for name in names.problems_in_order({r.problem for r in own})}


def defences(summary, results):
    """One table a problem: every defence as it is, and refined, with its times."""
    tables = []
    for problem, own in own_results(results, "defences").items():

        def find(method, attack, setting, metric="relative_l2", problem=problem):
            return summary.get(Place("defences", problem, method, attack, setting, metric))

        rows = []
        for method, title in DEFENCES.items():
            steps = own[0].settings[method]["training"]["steps"] if method != "robust" else None
            for name in (method, method + REFINED):
                if find(name, "none", "clean") is None:
                    continue
                errors = [short(find(name, *case)) for case in (*SETTINGS, WORST)]
                gain, answer = find(name, "common", "0.05", "kappa_E"), find(name, "none", "clean", "answer_seconds")
                times = [f"{own[0].seconds[method]:.0f}", f"{1e3 * answer.mean:.2g}"] if answer else ["–", "–"]
                label = [title, f"{steps:,}" if steps else "–"] if name == method else ["&ensp;refined", ""]
                rows.append([*label, *errors, short(gain), *times])
        header = ["", "steps", *columns(own), "κ_E, 0.05", "training, s", "answer, ms"]
        tables.append(f"**{names.problem_title(problem)}**\n\n{markdown(header, rows)}")
    return above("\n\n".join(tables), results, UNDEFENDED, "defences")


def menu(summary, results):
    """The worst case of every defence on every problem, and of the undefended network refined."""
    problems, titles = list(own_results(results, "defences")), {**DEFENCES, "pi" + REFINED: "none, but refined"}
    titles["robust"] = titles.pop("robust")  # to the end
    rows = []
    for method, title in titles.items():
        found = [summary.get(Place("defences", problem, method, *WORST, "relative_l2")) for problem in problems]
        rows.append([title, *map(short, found)])
    table = markdown(["", *map(names.problem_title, problems)], rows)
    return above(
        table, results, "Attack: each operator's own worst case, found by ascent on its true error.", "defences"
    )


def ablation(summary, results):
    """The recipe with one part taken away, on each problem."""
    tables = []
    for problem, own in own_results(results, "ablation").items():
        rows = []
        for method in own[0].settings:
            places = [Place("ablation", problem, method, *case, "relative_l2") for case in (*SETTINGS, WORST)]
            rows.append([method, *(short(summary.get(place)) for place in places)])
        title = f"**{names.problem_title(problem)}** ({len(own)} seed{'s' if len(own) > 1 else ''})"
        tables.append(f"{title}\n\n{markdown(['', *columns(own)], rows)}")
    return above("\n\n".join(tables), results, BOTH + ".", "ablation")


def own():
    """The example of a nonlinear PDE of one's own."""
    found = json.loads((DOCS / "own.json").read_text(encoding="utf-8"))
    return markdown(["clean", "perturbed"], [[f"{found[attack]:.1e}" for attack in ("none", "common")]])


def slopes():
    """Milliseconds and errors of refined answers, without and with modes of their Jacobians."""
    path, rows = DOCS / "slopes.json", []
    measured = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    for problem, found in measured.items():
        for way, title in (("exact", problem.title()), ("modes", "with modes")):
            times = [f"{found[count][f'{way}_ms']:.2g}" for count in ("1", "100")]
            rows.append([title, *times, *(f"{found[case][way]:.3g}" for case in ("clean", "rough"))])
    return markdown(["", "ms alone", "ms of 100", "clean", "signs, 0.1"], rows)


def costs():
    """Seconds to make the recipe robust, milliseconds for its answers, and a classical solver's."""
    path, rows = DOCS / "robust.json", []
    measured = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    for problem, found in measured.items():
        making = found["making"]
        made = making.get("training_seconds") or making["fresh_seconds"]
        for count, answers in found["answers"].items():
            classical = [row for name, row in answers.items() if name.startswith("classical")]
            fastest = min(classical, key=lambda row: row["ms"])
            ways = (answers["operator, trunk kept"], answers["robust, as predict calls it"], answers["plain"], fastest)
            times = [row["ms"] / int(count) for row in ways]
            title = [names.problem_title(problem), f"{made:.1f}"] if count == "1" else ["", ""]
            rows.append([*title, count, *(f"{time:.2g}" for time in times), fastest["setting"]])
    return markdown(
        ["", "made in, s", "inputs", "robust", "by `predict`", "plain DeepONet", "classical", "which"], rows
    )
