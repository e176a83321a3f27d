"""Puts the campaigns' results into README.md and the pages reproduction, robust, defences and audit of docs/:

    python benchmarks/reproduction.py

A table stands between `<!-- name -->` and `<!-- end -->` and is made from the files in results/ and docs/audit; the
pictures go to docs/reproduction.
"""

import math
import re
import statistics
from itertools import pairwise
from pathlib import Path

from audit_tables import example, viscosity
from conditions import COMMON, NONE, OWN, above, has_network, wrapped
from control_tables import controls
from document import markdown
from limit_tables import limits, readings
from robust_tables import (
    SETTINGS,
    ablation,
    certificates,
    costs,
    defences,
    menu,
    own,
    refined,
    robust,
    sampling_table,
    short,
    slopes,
    spread_table,
)

from stablepdenet.experiments.report import gallery, names
from stablepdenet.experiments.report.cells import spread
from stablepdenet.experiments.report.figures import looks_of, save_figure
from stablepdenet.experiments.report.ordering import paired_table
from stablepdenet.experiments.report.paper_tables import tables_of
from stablepdenet.experiments.report.render import markdown_table
from stablepdenet.experiments.report.summary import Place, summarise
from stablepdenet.experiments.results import load_fields, load_results
from stablepdenet.operators import PLAIN
from stablepdenet.training.objectives import METHODS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("reproduction", "robust", "defences", "audit")),
)
# The study's variations by name, in the order of its table; the first of a problem is what the campaign takes.
BASE = "paper-quick"
# A mean within this many times the paper's counts as reached.
REACHED = 1.25
SHORT = {"pi": "PI", "adv": "Adv", "stable": "Stable"}


def problems_of(results, recipe="paper"):
    """The paper's problems that there are results of."""
    return names.problems_in_order({result.problem for result in results if result.recipe == recipe})


def errors(summary, results, recipe="paper"):
    """The paper's error tables with ours beside them."""
    return above(kind_of_table(summary, results, "Relative L² error", recipe), results, COMMON, recipe)


def kind_of_table(summary, results, kind, recipe="paper"):
    """All tables of one kind."""
    return "\n\n".join(map(markdown_table, tables_of(recipe, summary, results)[kind]))


def constants(summary, results):
    """The Lipschitz table."""
    return above(kind_of_table(summary, results, "Local Lipschitz constants"), results, NONE, "paper")


def plain(summary, results, kind, attack, recipe="plain"):
    """Tables of the paper's own trunk."""
    table = kind_of_table(summary, results, kind, recipe)
    return above(f"{state(results, recipe)}\n\n{table}", results, attack, recipe)


def gains(summary, results):
    """The tables of response gains."""
    return above(kind_of_table(summary, results, "Response gains"), results, COMMON, "paper")


def sensitivity(summary, results):
    """What the sensitivity term brings, seed by seed."""
    tables = [markdown_table(paired_table(summary, "paper", name)) for name in problems_of(results)]
    return above("\n\n".join(tables), results, f"{COMMON} White-box: each operator's own worst case.", "paper")


def count(summary, results):
    """In how many rows StablePDENet's mean is near the paper's: all rows, and those whose trunk is the paper's own."""
    problems = problems_of(results)
    near, far = counted(summary, dict.fromkeys(problems, "paper"))
    last, _ = counted(summary, dict.fromkeys(problems, "paper-last"))
    own = {name: "paper" if has_own_trunk(results, name) else "plain" for name in problems}
    own = {name: recipe for name, recipe in own.items() if name in problems_of(results, recipe)}
    near_own, far_own = counted(summary, own)
    whole = len(near) + len(far)
    sentences = [
        f"StablePDENet's mean is at most {REACHED} times the paper's in {len(near)} of {whole} rows of errors",
        f"(parameters of the smallest validation loss; after the last step in {len(last)} of {whole}).",
        f"Above it: {'; '.join(far) or 'none'}.",
        f"Among the rows whose trunk is the paper's own ({seeds_of(results, own)}),",
        f"it is so in {len(near_own)} of {len(near_own) + len(far_own)}; above it: {'; '.join(far_own) or 'none'}.",
    ]
    return wrapped(" ".join(sentences))


def counted(summary, recipes):
    """The rows within REACHED times the paper's, and those above, of each problem from its recipe."""
    near, far = [], []
    for problem, recipe in recipes.items():
        for attack, setting in SETTINGS:
            mean = summary[Place(recipe, problem, "stable", attack, setting, "relative_l2")]
            name = f"{names.problem_title(problem)}, {case_title(attack, setting)} ({mean.ratio:.2f})"
            (near if mean.ratio <= REACHED else far).append(name)
    return near, far


def case_title(attack, setting):
    return "clean" if attack == "none" else f"ε = {setting}"


def has_own_trunk(results, problem):
    """Whether `paper` gives the trunk nothing but the coordinates."""
    own = [r for r in results if (r.recipe, r.problem) == ("paper", problem)]
    return all(s["operator"]["embedding"] == PLAIN for r in own for s in r.settings.values())


def seeds_of(results, recipes):
    """Each problem with its recipe and how many seeds of it there are."""
    counts = {name: sum((r.recipe, r.problem) == (recipe, name) for r in results) for name, recipe in recipes.items()}
    listed = [f"{names.problem_title(name)} of `{recipe}`: {counts[name]}" for name, recipe in recipes.items()]
    return "seeds of each: " + "; ".join(listed)


def last_step(summary, results):
    """StablePDENet with the parameters after the last step beside those of the smallest validation loss."""
    rows = []
    for problem in problems_of(results):
        for attack, setting in (SETTINGS[0], SETTINGS[-1]):
            best, last = (
                summary[Place(recipe, problem, "stable", attack, setting, "relative_l2")]
                for recipe in ("paper", "paper-last")
            )
            title = names.problem_title(problem) if attack == "none" else ""
            cells = [spread(found.mean, found.std) for found in (best, last)]
            ratios = [f"{found.ratio:.2f}" for found in (best, last)]
            rows.append([title, case_title(attack, setting), *cells, f"{best.paper:.3g}", *ratios])
    header = ["", "", "smallest validation loss", "last step", "the paper's", "first / paper's", "last / paper's"]
    return markdown(header, rows)


def ordering(summary, results):
    """The methods from the smallest error to the largest, the paper's and ours, and how far neighbours lie apart in
    units of the seeds' spread."""
    rows = []
    for problem in problems_of(results):
        for attack, setting in SETTINGS:
            found = {m: summary[Place("paper", problem, m, attack, setting, "relative_l2")] for m in METHODS}
            ours = sorted(METHODS, key=lambda method: found[method].mean)
            theirs = sorted(METHODS, key=lambda method: found[method].paper)
            margins = []
            for first, second in pairwise(ours):
                spread_of_both = math.hypot(found[first].std or 0.0, found[second].std or 0.0)
                gap = found[second].mean - found[first].mean
                margins.append(f"{gap / spread_of_both:.1f}" if spread_of_both else "–")
            title = names.problem_title(problem) if attack == "none" else ""
            stable = found["stable"]
            cells = [" < ".join(SHORT[method] for method in order) for order in (theirs, ours)]
            same = "yes" if ours == theirs else "no"
            rows.append(
                [
                    title,
                    case_title(attack, setting),
                    *cells,
                    same,
                    ", ".join(margins),
                    f"{stable.mean / stable.paper:.2f}",
                ]
            )
    header = ["", "", "the paper's order", "ours", "the same", "gaps over the spread", "StablePDENet, ours / paper"]
    return above(markdown(header, rows), results, COMMON, "paper")


def headline(summary, results):
    """Every operator under its own worst case."""
    rows = []
    for problem in problems_of(results):
        for setting in ("0.05", "0.10"):
            found = [summary[Place("paper", problem, method, "whitebox", setting, "relative_l2")] for method in METHODS]
            cells = [spread(mean.mean, mean.std) for mean in found]
            title = names.problem_title(problem) if setting == "0.05" else ""
            rows.append([title, f"ε = {setting}", *cells, recommended(summary, results, problem, "whitebox", setting)])
    return above(markdown(headings(), rows), results, OWN, "paper", "robust")


def common(summary, results):
    """Clean errors and those under the common perturbation, ours and the paper's, and the recipe robust."""
    rows = []
    for problem in problems_of(results):
        for attack, setting in SETTINGS:
            cells = []
            for method in METHODS:
                mean = summary[Place("paper", problem, method, attack, setting, "relative_l2")]
                cells.append(f"{spread(mean.mean, mean.std)} ({mean.paper:.3g})")
            title = names.problem_title(problem) if attack == "none" else ""
            cells.append(recommended(summary, results, problem, attack, setting))
            rows.append([title, case_title(attack, setting), *cells])
    return above(markdown(headings(), rows), results, f"{COMMON} For robust: of seed 0.", "paper", "robust")


def headings():
    return ["", "", *(names.method_title(method) for method in METHODS), "`--recipe robust`"]


def recommended(summary, results, problem, attack, setting):
    """The error of the recipe robust, and whether a network has made it."""
    found = short(summary.get(Place("robust", problem, "robust", attack, setting, "relative_l2")))
    return f"{found} ({'network' if has_network(results, 'robust', problem) else 'solver'})"


def state(results, recipe="paper"):
    """How many seeds there are of each problem."""
    own = [result for result in results if result.recipe == recipe]
    counts = [f"{names.problem_title(n)}: {sum(r.problem == n for r in own)}" for n in problems_of(results, recipe)]
    return f"Seeds in these tables: {'; '.join(counts)}."


def smallest_loss(result, method, kind, until=math.inf):
    """The validation loss that chose the parameters; a defence is judged from the end of its warm-up on."""
    curve, warmup = result.curves[method], result.settings[method]["training"]["warmup"]
    pairs = zip(curve["step"], curve[f"validation_{kind}"], strict=True)
    return min(loss for step, loss in pairs if (method == "pi" or step > warmup) and step <= until)


def losses(results):
    """The loss by which each StablePDENet was chosen beside its clean error, seed by seed."""
    own, rows = [result for result in results if result.recipe == "paper"], []
    for problem in problems_of(results):
        for name, cells in (("validation loss", []), ("clean error", [])):
            for result in (result for result in own if result.problem == problem):
                wanted = {"method": "stable", "attack": "none", "setting": "clean", "metric": "relative_l2"}
                error = next(row["value"] for row in result.rows if wanted.items() <= row.items())
                value = error if name == "clean error" else smallest_loss(result, "stable", "attacked")
                cells.append(f"{value:.2g}")
            rows.append([names.problem_title(problem) if name != "clean error" else "", name, *cells])
    table = markdown(["", "", *(f"seed {seed}" for seed in range(len(rows[0]) - 2))], rows)
    return above(table, results, "The loss is under the training attack, the error without any.", "paper")


def progress(results):
    """StablePDENet's smallest validation loss up to a step, the median over the seeds."""
    own, steps, rows = [result for result in results if result.recipe == "paper"], range(10_000, 50_001, 10_000), []
    for problem in problems_of(results):
        found = [result for result in own if result.problem == problem]
        losses_at = [[smallest_loss(result, "stable", "attacked", until=step) for result in found] for step in steps]
        medians = map(statistics.median, losses_at)
        rows.append([names.problem_title(problem), *(f"{value:.2g}" for value in medians)])
    table = markdown(["", *(f"{step:,} steps" for step in steps)], rows)
    return above(table, results, "Attack: the training attack.", "paper")


def study(study_results):
    """Each variation's validation losses and errors, mean over its seeds, at the reduced budget."""
    rows = []
    for problem in names.problems_in_order({result.problem for result in study_results}):
        variants = sorted({r.recipe for r in study_results if r.problem == problem and not r.recipe.endswith("-last")})
        for recipe in sorted(variants, key=lambda recipe: (recipe != BASE, recipe)):
            own = [r for r in study_results if (r.problem, r.recipe) == (problem, recipe)]
            change = recipe.removeprefix(BASE).strip("[]").replace(",", ", ") or "as in the campaign"
            losses = [
                statistics.fmean(smallest_loss(result, method, kind) for result in own)
                for method, kind in (("pi", "clean"), ("adv", "attacked"), ("stable", "attacked"))
            ]
            cells = [f"{loss:.2g}" for loss in losses]
            summary = summarise(own)
            for method in ("adv", "stable"):
                places = [Place(recipe, problem, method, *case, "relative_l2") for case in SETTINGS]
                cells.append(" / ".join(f"{summary[place].mean:.3f}" for place in places))
            rows.append([names.problem_title(problem), change, str(len(own)), *cells])
    header = ["problem", "changed", "seeds", "validation loss PI, clean", "AdvPI, attacked", "StablePDENet, attacked"]
    table = markdown([*header, "errors AdvPI", "errors StablePDENet"], rows)
    return above(table, study_results, COMMON, BASE)


def tables():
    """All tables by name."""
    results = load_results(RESULTS)
    summary = summarise(results)
    return {
        "state": state(results),
        "headline": headline(summary, results),
        "common": common(summary, results),
        "count": count(summary, results),
        "ordering": ordering(summary, results),
        "errors": errors(summary, results),
        "errors-last": errors(summary, results, "paper-last"),
        "last": last_step(summary, results),
        "errors-plain": plain(summary, results, "Relative L² error", COMMON),
        "errors-plain-last": plain(summary, results, "Relative L² error", COMMON, "plain-last"),
        "lipschitz-plain": plain(summary, results, "Local Lipschitz constants", NONE),
        "lipschitz": constants(summary, results),
        "gains": gains(summary, results),
        "sensitivity": sensitivity(summary, results),
        "robust": robust(summary, results),
        "spread": spread_table(),
        "sampling": sampling_table(),
        "certificates": certificates(results),
        "refined": refined(summary, results),
        "defences": defences(summary, results),
        "menu": menu(summary, results),
        "ablation": ablation(summary, results),
        "controls": controls(summary, results),
        "costs": costs(),
        "slopes": slopes(),
        "own": own(),
        "limits": limits(),
        "example": example(),
        "viscosity": viscosity(),
        "losses": losses(results),
        "progress": progress(results),
        "readings": readings(),
        "study": study(load_results(RESULTS / "study")),
    }


def filled(text, made):
    """A page with the tables it has a place for made anew."""
    for name, table in made.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return text


def main():
    made = tables()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), made), encoding="utf-8")
    pictures = ROOT / "docs" / "reproduction"
    pictures.mkdir(exist_ok=True)
    looks = looks_of(METHODS)
    for result in load_results(RESULTS):
        fields = load_fields(RESULTS, result) if result.recipe == "paper" else None
        if fields:
            picture = next(gallery.field_pictures(fields, result.problem, result.seed, looks))
            save_figure(picture.figure, pictures / f"{result.problem}.png")


if __name__ == "__main__":
    main()
