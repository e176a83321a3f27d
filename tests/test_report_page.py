"""The report of a campaign: numbers checked by hand, well-formed files, nothing that crashes on what is missing."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from stablepdenet.cli import app
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.report import paper
from stablepdenet.report.cells import quotient, spread
from stablepdenet.report.figures import looks_of
from stablepdenet.report.gallery import gains_pictures
from stablepdenet.report.names import problem_title, radius_of
from stablepdenet.report.page import page
from stablepdenet.report.paper_tables import tables_of
from stablepdenet.report.render import html_text, markdown_text, tex_text
from stablepdenet.report.summary import as_json, summarise
from stablepdenet.report.svg import inline_svg
from stablepdenet.results import Result, load_results, save_result

# The errors of two seeds, by method and setting.
ERRORS = {"pi": {"clean": (0.01, 0.03), "0.05": (0.5, 0.7)}, "stable": {"clean": (0.02, 0.03), "0.05": (0.03, 0.04)}}
GAINS = {"kappa_S": 0.1, "kappa_G": 0.3, "kappa_E": 0.2, "kappa_r": 1.0, "angle": 60.0}
HOSTILE = "<script>$\\frac&|*"


def row(problem, method, seed, attack, setting, metric, value, recipe="paper"):
    place = {"problem": problem, "recipe": recipe, "method": method, "seed": seed}
    return {**place, "setting": setting, "attack": attack, "metric": metric, "value": value}


def rows_of(problem, seed, errors=ERRORS):
    for method, settings in errors.items():
        for setting, values in settings.items():
            attack = "none" if setting == "clean" else "common"
            yield row(problem, method, seed, attack, setting, "relative_l2", values[seed])
        for metric, value in GAINS.items():
            yield row(problem, method, seed, "common", "0.05", metric, value * (1 + seed))
        yield row(problem, method, seed, "none", "clean", "lipschitz_mean", 0.02 if method == "pi" else 0.03)
        yield row(problem, method, seed, "none", "clean", "lipschitz_exact_mean", 0.031176)
        yield row(problem, method, seed, "whitebox", "0.05", "relative_l2", 0.8)
        yield row(problem, method, seed, "none", "jump", "relative_l2", 0.4)


def fields_of(methods=("pi", "stable"), settings=("clean", "0.05", "jump"), times=5):
    x, t = np.linspace(0, 1, 7), np.linspace(0, 1, times)
    shape = (7, times) if times else (7,)
    fields = {"axis.0": x} | ({"axis.1": t} if times else {})
    for i, setting in enumerate(settings):
        fields |= {f"input.{setting}": x + i, f"reference.{setting}": np.full(shape, 1.0 + i)}
        fields |= {f"{m}.{setting}": np.linspace(1.1, 1.2 + n + i, math.prod(shape)) for n, m in enumerate(methods)}
    return fields


def result_of(problem, seed, rows=None, **changes):
    losses = {"pi": [1.0, 0.5, 0.2 + 0.1 * seed], "stable": [1.0, 0.6, 0.3 + 0.1 * seed]}
    curves = {
        name: {"step": [10, 20, 30], "loss": loss, "validation_clean": [None, loss[1], None]}
        for name, loss in losses.items()
    }
    settings = {
        "problem": {"name": problem},
        "seed": seed,
        "training": {"steps": 30, "warmup": 10, "batch": len(problem)},
    }
    content = {
        "rows": list(rows_of(problem, seed)) if rows is None else rows,
        "settings": {"pi": settings, "stable": settings},
        "curves": curves,
        "seconds": {"pi": 1.0, "stable": 3.0 + seed},
        "versions": {"jax": "0.10.2"},
        "notes": ["Something was <left> out."],
    }
    return Result("paper", problem, seed, **(content | changes))


@pytest.fixture
def folder(tmp_path):
    for seed in (0, 1):
        save_result(tmp_path, result_of("heat", seed), fields_of())
        save_result(tmp_path, result_of("helmholtz-3.5pi", seed), fields_of(settings=("clean", "0.05"), times=0))
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


class Balanced(HTMLParser):
    """Every element is closed where it should be; what is loaded is collected."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.loaded, self.ids = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.loaded += [values[name] for name in ("src", "href", "xlink:href") if name in values]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def html_of(folder):
    results = load_results(folder)
    text = page(folder, results, summarise(results))
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert not parser.open
    return text, parser


def test_means_deviations_and_ratios_are_those_found_by_hand(folder):
    found = json.loads(report(folder, "--format", "json").stdout)
    keys = [
        "recipe",
        "problem",
        "method",
        "attack",
        "setting",
        "eps",
        "metric",
        "mean",
        "std",
        "seeds",
        "paper",
        "ratio",
    ]
    assert all(list(entry) == keys for entry in found)

    def entry(**place):
        (one,) = [e for e in found if place.items() <= e.items()]
        return one

    clean = entry(problem="heat", method="pi", attack="none", setting="clean", metric="relative_l2")
    assert math.isclose(clean["mean"], 0.02) and math.isclose(clean["std"], 0.01 * math.sqrt(2))
    assert (clean["eps"], clean["seeds"], clean["paper"]) == (0.0, 2, 0.011583)
    assert math.isclose(clean["ratio"], 0.02 / 0.011583)
    gain = entry(problem="heat", method="stable", attack="common", metric="kappa_E")
    assert (gain["eps"], gain["paper"]) == (0.05, 0.319088) and math.isclose(gain["mean"], 0.3)
    jump = entry(problem="heat", method="pi", setting="jump")
    assert (jump["eps"], jump["paper"], jump["ratio"]) == (None, None, None)
    exact = entry(problem="helmholtz-3.5pi", method="pi", metric="lipschitz_exact_mean")
    assert exact["paper"] == 0.031176 and exact["std"] == 0.0
    assert entry(problem="heat", method="pi", attack="whitebox")["paper"] is None


def test_one_seed_has_no_deviation():
    (entry,) = as_json(summarise([result_of("heat", 0, [row("heat", "pi", 0, "none", "clean", "relative_l2", 0.1)])]))
    assert entry["std"] is None and entry["seeds"] == 1


def test_the_best_is_bold_and_for_lipschitz_constants_the_closest(folder):
    results = load_results(folder)
    tables = tables_of("paper", summarise(results), results)
    clean, attacked = tables["Relative L² error"][0].rows
    assert [cell.text for cell in clean if cell.bold] == ["0.020 ± 0.014", "0.011583"]
    assert [cell.text for cell in attacked if cell.bold] == ["0.0350 ± 0.0071", "0.02724"]
    helmholtz = tables["Local Lipschitz constants"][0].rows[1]
    assert [cell.text for cell in helmholtz if cell.bold] == ["0.030000", "0.0298"]
    gains = {line[0].text: [cell.bold for cell in line] for line in tables["Response gains"][0].rows}
    assert not any(gains["κ_G, ε = 0.05"]) and any(gains["κ_E, ε = 0.05"])


def test_the_paper_s_numbers_are_found():
    assert paper.printed("poisson", "adv", "common", "0.10", "kappa_r") == 0.920936
    assert paper.printed("heat", "stable", "common", "0.05", "kappa_S") == 0.112741
    assert paper.printed("helmholtz-3pi+0.1", "stable", "none", "clean", "lipschitz_mean") == 0.51405
    assert paper.printed("heat", "pi", "whitebox", "0.05", "relative_l2") is None
    assert paper.printed("heat", "robust", "none", "clean", "relative_l2") is None
    assert paper.printed("own", "pi", "common", "0.05", "kappa_E") is None


def test_numbers_and_names_read_well():
    assert spread(0.0234567, 0.00123) == "0.0235 ± 0.0012"
    assert spread(7.9, 0.54) == "7.90 ± 0.54"
    assert spread(1.5e-7, 2e-8) == "1.5e-07 ± 2e-08"
    assert spread(0.031176, 0.0) == "0.031176" and spread(0.0, None) == "0.0000"
    assert quotient(1.024) == "1.02" and quotient(0.0312) == "0.031" and quotient(None) == "–"
    assert problem_title("helmholtz-3pi+0.5") == "Helmholtz, κ = 3π + 0.5"
    assert problem_title("burgers[viscosity=0.002]") == "Burgers, viscosity = 0.002"
    assert problem_title("own-problem") == "own-problem"
    assert radius_of("0.05 viscosity=0.002") == 0.05 and radius_of("5points") is None and radius_of(".") is None


def test_the_page_is_one_file_with_every_kind_of_figure(folder):
    text, parser = html_of(folder)
    assert not re.search(r"https?:|@import|url\((?!#)", text) and "script" not in parser.tags
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in parser.loaded)
    assert len(set(parser.ids)) == len(parser.ids)
    assert {link[1:] for link in parser.loaded if link.startswith("#")} <= set(parser.ids)
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    for words in (
        "Heat: a test input, clean and under the common perturbation",
        "Heat: errors on the perturbed input",
        "Heat: unseen inputs",
        "Heat: errors on the unseen input jump",
        "Heat: response gains",
        "Heat: losses in training",
        "Local Lipschitz constants",
        "Helmholtz, κ = 3.5π: a test input",
    ):
        assert any(caption.startswith(words) for caption in captions), words
    assert len(captions) == parser.tags.count("svg") == parser.tags.count("figure")
    assert "training.batch" in text and "jax" in text and "Something was &lt;left&gt; out." in text


def test_a_figure_is_the_same_every_time():
    results = [result_of("heat", seed) for seed in (0, 1)]
    drawn = [next(gains_pictures(summarise(results), "paper", "heat", looks_of(ERRORS))) for _ in range(2)]
    assert len({inline_svg(picture.figure, prefix="f", label=picture.caption) for picture in drawn}) == 1


def test_markdown_tables_have_equal_lines(folder):
    text = report(folder, "--format", "md").stdout
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "| Clean | **0.020 ± 0.014** | **0.011583** | 1.73 | 0.0250 ± 0.0071 | 0.022877 | 1.09 |" in text


def test_tex_is_balanced(folder):
    text = report(folder, "--format", "tex").stdout
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended) and "booktabs" in text
    bare = re.sub(r"\\[\\{}$&%#_]", "", text)
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    assert text.isascii() and r"\textbf{0.020 $\pm$ 0.014}" in text and r"$\kappa_{E}$, $\varepsilon$ = 0.05" in text
    for body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", text, flags=re.DOTALL):
        for line in body[1].split(r"\midrule")[1].splitlines():
            assert "&" not in line or len(re.findall(r"(?<!\\)&", line)) == len(body[0]) - 1


def test_text_of_others_is_only_text():
    assert html_text(HOSTILE) == "&lt;script&gt;$\\frac&amp;|*"
    assert markdown_text(HOSTILE) == "&lt;script>$\\\\frac&amp;\\|\\*"
    assert tex_text(HOSTILE) == r"\textless{}script\textgreater{}\$\textbackslash{}frac\&\textbar{}*"
    assert tex_text("u_xx, κ_E, naïve 漢") == r"$u_{xx}$, $\kappa_{E}$, naïve ?"


def test_whatever_is_there_is_shown(tmp_path):
    rows = [row("burgers[viscosity=0.002]", "robust", 3, "none", "clean", "relative_l2", 0.125)]
    rows.append(row("burgers[viscosity=0.002]", HOSTILE, 3, "none", "clean", "relative_l2", 0.5))
    rows += [
        row("burgers[viscosity=0.002]", "robust", 3, "common", f"{e:.2f}", "kappa_E", 1.0) for e in (0.01, 0.02, 0.03)
    ]
    rows.append(row("burgers[viscosity=0.002]", "robust", 3, "common", "far off", "kappa_E", 1.0))
    bare = {"settings": {}, "curves": {}, "seconds": {}, "versions": {}, "notes": []}
    save_result(tmp_path, result_of("burgers[viscosity=0.002]", 3, rows, **bare))
    save_result(tmp_path, result_of("empty", 0, [], **bare))
    diverged = fields_of(methods=("robust", "fields-only"), settings=("0.05", HOSTILE))
    diverged["robust.0.05"] = np.full((7, 5), np.nan)
    diverged["robust.wrong"] = np.ones(3)
    save_result(tmp_path, result_of("own", 0, [], **bare), diverged)
    text, _ = html_of(tmp_path)
    assert "Burgers, viscosity = 0.002" in text and "robust" in text and "0.12500" in text
    assert "own: errors on the perturbed input" in text and "<script" not in text
    for form in ("md", "tex", "json"):
        assert report(tmp_path, "--format", form).exit_code == 0


def test_methods_keep_their_look():
    assert looks_of(["stable", "robust"])["stable"] == looks_of(["pi", "adv", "stable"])["stable"]
    assert len({look.colour for look in looks_of(["pi", "adv", "stable", "a", "b", "c"]).values()}) == 6


def test_what_is_no_result_is_refused_in_one_sentence(folder, tmp_path):
    assert isinstance(report(tmp_path / "nothing").exception, CheckpointError)
    assert isinstance(report(folder, "--format", "pdf").exception, ConfigError)
    bad = [row("poisson", "pi", 0, "none", "clean", "relative_l2", "much")]
    save_result(folder, result_of("poisson", 0, bad))
    assert "paper/poisson/seed-0.json" in str(report(folder, "--format", "md").exception)
    (folder / "paper" / "poisson" / "seed-0.json").write_text('{"format": "other"}')
    assert isinstance(report(folder, "--format", "json").exception, CheckpointError)


def test_the_page_goes_where_it_is_told(tmp_path, monkeypatch):
    save_result(tmp_path / "results", result_of("heat", 0, [row("heat", "pi", 0, "none", "clean", "relative_l2", 0.1)]))
    monkeypatch.chdir(tmp_path)
    assert report("results").exit_code == 0
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert report("results", "--format", "md", "-o", "tables.md").stdout == ""
    assert (tmp_path / "tables.md").read_text().startswith("# Results")


def test_the_gain_of_the_sensitivity_term_is_paired_seed_by_seed():
    errors = {"adv": {"clean": (0.05, 0.09)}, "stable": {"clean": (0.03, 0.05)}}
    results = [result_of("heat", seed, list(rows_of("heat", seed, errors))) for seed in (0, 1)]
    table = next(t for t in tables_of("paper", summarise(results), results)["What the sensitivity term gains"])
    line = [cell.text for cell in table.rows[0]]
    # Gains 0.02 and 0.04: mean 0.03, deviation 0.01414, standard error 0.01; the mean of AdvPI is 0.07.
    assert line[:5] == ["Clean", "0.030 ± 0.014", "+3.0", "2 of 2", "+43 %"]
    # A seed that one of them lacks is no pair.
    lacking = [dataclasses.replace(r, rows=[x for x in r.rows if x["method"] != "adv" or r.seed]) for r in results]
    table = next(t for t in tables_of("paper", summarise(lacking), lacking)["What the sensitivity term gains"])
    assert [cell.text for cell in table.rows[0]][3] == "1 of 1"
    assert line[5:] == [quotient(0.019515 - 0.022877), "-17 %"]
