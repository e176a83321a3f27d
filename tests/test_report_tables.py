"""The numbers and tables of a report, checked by hand."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest
from report_cases import HOSTILE, report, result_of, row, rows_of, two_seeds

from stablepdenet.experiments.report import paper
from stablepdenet.experiments.report.cells import as_bound, quotient, spread
from stablepdenet.experiments.report.names import problem_title, radius_of
from stablepdenet.experiments.report.paper_tables import tables_of
from stablepdenet.experiments.report.render import html_text, markdown_text, tex_text
from stablepdenet.experiments.report.settings import conditions
from stablepdenet.experiments.report.summary import as_json, summarise
from stablepdenet.experiments.results import load_results, save_result


@pytest.fixture
def folder(tmp_path):
    return two_seeds(tmp_path)


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


def with_operator(problem, recipe="paper", **operator):
    settings = {"stable": {"operator": {"kind": "deeponet", "embedding": "coordinates"} | operator}}
    return dataclasses.replace(result_of(problem, 0), recipe=recipe, settings=settings)


def test_a_recipe_says_which_trunk_and_which_parameters_its_numbers_have():
    found = [with_operator("heat"), with_operator("helmholtz-3.5pi", embedding="waves")]
    told = conditions([*found, with_operator("helmholtz-3pi+0.5", embedding="waves")])
    assert "the coordinates alone, as in the paper (Heat)" in told
    assert "modes (Helmholtz)" in told and told.endswith("Parameters: those of the smallest validation loss.")
    last = conditions([with_operator("heat", recipe="paper-last")])
    assert last.endswith("Parameters: those after the last step.")
    solved = conditions([with_operator("heat", recipe="robust", kind="solved")])
    assert "no network" in solved and "Parameters" not in solved
    refined = conditions([with_operator("burgers", recipe="robust", embedding="periodic", refinements=3)])
    assert "refined at inference (Burgers)" in refined
    # Settings of others need not tell.
    assert conditions([result_of("heat", 0)]) == ""


def test_the_sentence_stands_in_every_format(tmp_path):
    save_result(tmp_path, with_operator("heat"))
    for form in ("md", "tex", "html"):
        target = tmp_path / form
        assert report(tmp_path, "--format", form, "-o", target).exit_code == 0
        assert "the coordinates alone, as in the paper (Heat)" in target.read_text()


def test_a_certificate_above_one_is_no_useful_bound():
    assert as_bound(0.3, "0.30") == "0.30" and as_bound(1.2, "1.2") == "no useful bound (1.2)"
    rows = [row("heat", "robust", 0, "certified", s, "relative_l2", v) for s, v in (("0.05", 0.3), ("0.10", 1.5))]
    rows.append(row("heat", "robust", 0, "certified", "0.05", "rounding", 0.2))
    result = result_of("heat", 0, rows)
    tables = tables_of("paper", summarise([result]), [result])
    first, second = tables["Errors under attacks on each model"][0].rows
    assert first[1].text == "0.30000" and second[1].text == "no useful bound (1.5000)"
    (kind,) = [kind for kind in tables if kind.startswith("Certificates")]
    assert [cell.text for cell in tables[kind][0].rows[0]] == ["rounding, ε = 0.05", "0.20000"]
