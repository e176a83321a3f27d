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
from control_tables import controls
from document import markdown
from robust_tables import SETTINGS, ablation, certificates, costs, defences, menu, own, refined, robust, short

from stablepdenet.methods import METHODS
from stablepdenet.report import gallery, names
from stablepdenet.report.cells import spread
from stablepdenet.report.figures import looks_of, save_figure
from stablepdenet.report.ordering import paired_table
from stablepdenet.report.paper_tables import tables_of
from stablepdenet.report.render import markdown_table
from stablepdenet.report.summary import Place, summarise
from stablepdenet.results import load_fields, load_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("reproduction", "robust", "defences", "audit")),
)
# The study's variations by name, in the order of its table; the first of a problem is what the campaign takes.
BASE = "paper-quick"
SHORT = {"pi": "PI", "adv": "Adv", "stable": "Stable"}


def problems_of(results):
    """The paper's problems that there are results of."""
    return names.problems_in_order({result.problem for result in results if result.recipe == "paper"})


def errors(summary, results, recipe="paper"):
    """The paper's error tables with ours beside them."""
    return "\n\n".join(map(markdown_table, tables_of(recipe, summary, results)["Relative L² error"]))


def constants(summary, results):
    """The Lipschitz table."""
    return "\n\n".join(map(markdown_table, tables_of("paper", summary, results)["Local Lipschitz constants"]))


def gains(summary, results):
    """The tables of response gains."""
    return "\n\n".join(map(markdown_table, tables_of("paper", summary, results)["Response gains"]))


def sensitivity(summary, results):
    """What the sensitivity term brings, seed by seed."""
    problems = problems_of(results)
    return "\n\n".join(markdown_table(paired_table(summary, "paper", name)) for name in problems)


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
            kind = "clean" if attack == "none" else f"ε = {setting}"
            rows.append([title, kind, *cells, same, ", ".join(margins), f"{stable.mean / stable.paper:.2f}"])
    header = ["", "", "the paper's order", "ours", "the same", "gaps over the spread", "StablePDENet, ours / paper"]
    return markdown(header, rows)


def headline(summary, results):
    """Clean and attacked errors of all problems in one table, ours and the paper's, and the recipe robust."""
    rows = []
    for problem in problems_of(results):
        for attack, setting in SETTINGS:
            cells = []
            for method in METHODS:
                mean = summary[Place("paper", problem, method, attack, setting, "relative_l2")]
                cells.append(f"{spread(mean.mean, mean.std)} ({mean.paper:.3g})")
            ours = summary.get(Place("robust", problem, "robust", attack, setting, "relative_l2"))
            cells.append(short(ours))
            title = names.problem_title(problem) if attack == "none" else ""
            rows.append([title, "clean" if attack == "none" else f"ε = {setting}", *cells])
    return markdown(["", "", *(names.method_title(method) for method in METHODS), "`--recipe robust`"], rows)


def state(results):
    """How many seeds there are of each problem."""
    own, problems = [result for result in results if result.recipe == "paper"], problems_of(results)
    counts = [f"{names.problem_title(name)}: {sum(r.problem == name for r in own)}" for name in problems]
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
    return markdown(["", "", *(f"seed {seed}" for seed in range(len(rows[0]) - 2))], rows)


def progress(results):
    """StablePDENet's smallest validation loss up to a step, the median over the seeds."""
    own, steps, rows = [result for result in results if result.recipe == "paper"], range(10_000, 50_001, 10_000), []
    for problem in problems_of(results):
        found = [result for result in own if result.problem == problem]
        losses_at = [[smallest_loss(result, "stable", "attacked", until=step) for result in found] for step in steps]
        medians = map(statistics.median, losses_at)
        rows.append([names.problem_title(problem), *(f"{value:.2g}" for value in medians)])
    return markdown(["", *(f"{step:,} steps" for step in steps)], rows)


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
    return markdown([*header, "errors AdvPI", "errors StablePDENet"], rows)


def tables():
    """All tables by name."""
    results = load_results(RESULTS)
    summary = summarise(results)
    return {
        "state": state(results),
        "headline": headline(summary, results),
        "ordering": ordering(summary, results),
        "errors": errors(summary, results),
        "errors-last": errors(summary, results, "paper-last"),
        "lipschitz": constants(summary, results),
        "gains": gains(summary, results),
        "sensitivity": sensitivity(summary, results),
        "robust": robust(summary, results),
        "certificates": certificates(results),
        "refined": refined(summary, results),
        "defences": defences(summary, results),
        "menu": menu(summary, results),
        "ablation": ablation(summary, results),
        "controls": controls(summary, results),
        "costs": costs(),
        "own": own(),
        "example": example(),
        "viscosity": viscosity(),
        "losses": losses(results),
        "progress": progress(results),
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
