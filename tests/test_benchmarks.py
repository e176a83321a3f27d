"""What the benchmarks conclude from their numbers; the numbers themselves are theirs."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.auditing.measure import Measured
from stablepdenet.experiments.report.summary import summarise
from stablepdenet.experiments.results import Result

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROBLEMS = ("poisson", "heat", "burgers", "helmholtz-3.5pi")
CASES = (("none", "clean"), ("common", "0.05"), ("common", "0.10"))


@pytest.fixture
def load(monkeypatch):
    """Imports a script of benchmarks/, as one finds the other."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER / "peers"))
    return importlib.import_module


def test_products_are_those_that_run(load) -> None:
    products = load("products")

    def function(a, b, c):
        _ = b @ c  # nobody uses it
        return jnp.sum(jax.checkpoint(lambda a: jnp.tanh(a @ b))(a))

    a, b, c = jnp.ones((3, 4)), jnp.ones((4, 5)), jnp.ones((5, 2))
    found = products.matrix_products(jax.grad(function), a, b, c)
    # One a @ b alone: the loss itself is not asked for, and its product made again for the backward pass.
    assert [(left[1], right[1]) for left, right, _ in found] == [((3, 4), (4, 5)), ((3, 5), (4, 5))]
    assert found[0][1][0] == found[1][1][0]  # b is one array in both
    assert products.operations(found) == 2 * 2 * 3 * 4 * 5
    outer = products.matrix_products(lambda x, y: jnp.tensordot(x, y, 0), jnp.ones(3), jnp.ones(4))
    assert products.operations(outer) == 2 * 3 * 4
    turned = products.matrix_products(lambda a, b: a.T @ (a @ b), jnp.ones((3, 4)), jnp.ones((4, 2)))
    assert [left for left, _, _ in turned] == [(0, (3, 4), (0, 1)), (0, (3, 4), (1, 0))]
    assert products.products_alone(turned).lower(2).as_text().count("dot_general") == 2


def contender(name: str, **told: float) -> SimpleNamespace:
    return SimpleNamespace(name=name, label=name, told=told)


@pytest.mark.parametrize("told", [{"loss": 1.0002, "gradient": 2.0}, {"loss": 1.0, "gradient": 2.01}])
def test_nothing_is_timed_when_losses_or_gradients_disagree(load, told: dict[str, float]) -> None:
    bench = load("bench")
    ours = contender("ours", loss=1.0, gradient=2.0)
    assert bench.agreement([ours, contender("zcs", loss=1.00005, gradient=2.001)]) == pytest.approx(5e-5)
    with pytest.raises(load("contenders").Failure, match="zcs has another"):
        bench.agreement([ours, contender("zcs", **told)])
    with pytest.raises(load("contenders").Failure, match="zcs has another"):
        bench.agreement([ours, contender("zcs", loss=float("nan"), gradient=2.0)])


def results(ratio: float, default: float, peak: float, share: float) -> dict:
    step = {"ours": {"ratio": 1.0, "ms": 1.0, "peak_mb": peak}}
    peers = {"zcs": {"ratio": ratio, "ms": ratio, "peak_mb": 500}, "default": {"ratio": default, "peak_mb": 600}}
    limit = step | {"xla-products": {"ratio": 1.01 * share}, "torch-products": {"ratio": share}}
    return {"pi": dict.fromkeys(PROBLEMS, step | peers), "limit": dict.fromkeys(PROBLEMS, limit)}


def test_missed_bars_are_named(load) -> None:
    report = load("report")
    assert report.missed(results(6.0, 120.0, 450.0, 0.7), "ours") == []
    slow = report.missed(results(2.5, 90.0, 450.0, 0.7), "ours")
    assert slow[:2] == ["zcs 2.5x in the median, not 5x", "default 90.0x in the median, not 100x"]
    assert slow[2:] == [f"{problem} zcs 2.5x, not 3x" for problem in PROBLEMS]
    assert report.missed(results(6.0, 120.0, 510.0, 0.7), "ours")[0] == "poisson memory 510 MB, not 500 MB"
    far = report.missed(results(6.0, 120.0, 450.0, 0.6), "ours")
    assert len(far) == 3 and far[0] == "heat 60% of the best product rate, not 65%"


def test_growth_fits_what_is_known(load) -> None:
    report = load("growth_report")
    sizes = [250, 500, 1000, 2000]
    assert report.slope(sizes, [3.0 * size**1.2 for size in sizes]) == pytest.approx(1.2)
    line = report.line(sizes, [400 + 0.02 * size for size in sizes])
    assert line["base"] == pytest.approx(400) and line["each"] == pytest.approx(0.02) and line["off"] < 1e-9

    def sweep(power: float) -> dict:
        return report.fitted(
            [{"size": s, "ms": s**power, "peak_mb": 400 + s, "buffers_mb": 1 + s} for s in (0, *sizes)]
        )

    assert report.missed({"points": sweep(1.0)}) == []
    assert report.missed({"points": sweep(1.1)}) == ["points time slope 1.10, not 1.05"]


def test_the_page_on_speed_has_the_tables_of_its_results(load) -> None:
    document = load("document")
    page = (document.DOCS / "performance.md").read_text(encoding="utf-8")
    assert document.filled(page, document.read()) == page
    for picture in re.findall(r"\]\((performance/.*?\.png)\)", page):
        assert (document.DOCS / picture).exists()


def test_the_pages_on_the_campaign_show_its_results(load):
    """README and the pages in docs/ hold what `python benchmarks/reproduction.py` makes of results/."""
    reproduction = load("reproduction")
    made = reproduction.tables()
    for page in reproduction.PAGES:
        text = page.read_text(encoding="utf-8")
        assert reproduction.filled(text, made) == text, page.name
    pages = "".join(page.read_text(encoding="utf-8") for page in reproduction.PAGES)
    assert all(f"<!-- {name} -->" in pages for name in made)
    # Every error of these pages says what it is of.
    for name in ("headline", "common", "errors", "errors-last", "ordering", "gains", "robust", "defences", "menu"):
        assert "Trunk sees:" in made[name] and "Attack:" in made[name], name


def test_the_page_on_trust_has_the_tables_of_its_results(load):
    unseen, viscosities, estimates = map(load, ("unseen_pdes", "viscosities", "estimates"))
    page = (unseen.DOCS / "trust.md").read_text(encoding="utf-8")
    rows = [
        json.loads((unseen.DOCS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        for name in ("unseen_pdes", "viscosities")
    ]
    judged = estimates.stored(FOLDER.parent / "results")
    assert all(rows) and judged
    made = {"unseen": unseen.table(rows[0]), "viscosities": viscosities.table(rows[1])}
    assert unseen.filled(page, {**made, "estimates": estimates.table(judged)}) == page


def test_no_bound_was_below_an_error(load):
    bounds = load("bounds")
    page = (bounds.DOCS / "trust.md").read_text(encoding="utf-8")
    rows = json.loads((bounds.DOCS / "bounds.json").read_text(encoding="utf-8"))["rows"]
    assert all(row[kind]["violations"] == 0 for row in rows for kind in bounds.KINDS)
    assert bounds.filled(page, {"bounds": bounds.table(rows)}) == page


def seed_of(recipe: str, problem: str, seed: int, errors: tuple[float, ...], embedding: str) -> Any:
    rows = [
        {"method": method, "attack": attack, "setting": setting, "metric": "relative_l2", "value": value}
        for method in ("pi", "adv", "stable")
        for (attack, setting), value in zip(CASES, errors, strict=True)
    ]
    rows.append({**rows[-1], "attack": "none", "setting": "clean", "metric": "lipschitz_mean", "value": 0.03})
    settings = {
        method: {"operator": {"kind": "deeponet", "embedding": embedding}} for method in ("pi", "adv", "stable")
    }
    return Result(recipe, problem, seed, rows, settings, {}, {}, {}, [])


def test_rows_near_the_paper_s_are_counted_by_trunk(load):
    reproduction = load("reproduction")
    heat, waves = (0.0229, 0.0272, 0.1), (0.065, 0.0614, 0.0611)  # the paper's, but for heat's last: 2.3 times
    results = [
        seed_of(recipe, problem, 0, errors, embedding)
        for recipe in ("paper", "paper-last")
        for problem, errors, embedding in (("heat", heat, "coordinates"), ("helmholtz-3.5pi", waves, "waves"))
    ]
    text = " ".join(reproduction.count(summarise(results), results).split())
    assert "in 5 of 6 rows" in text and "after the last step in 5 of 6" in text
    assert "Heat of `paper`: 1), it is so in 2 of 3" in text and "Above it: Heat, ε = 0.10 (2.33)" in text
    # One seed of the bare trunk has been run.
    results.append(seed_of("plain", "helmholtz-3.5pi", 0, (0.9, 0.9, 0.9), "coordinates"))
    text = " ".join(reproduction.count(summarise(results), results).split())
    assert "Helmholtz, κ = 3.5π of `plain`: 1), it is so in 2 of 6" in text and "in 5 of 6 rows" in text
    for kind in ("Relative L² error", "Local Lipschitz constants"):
        table = reproduction.plain(summarise(results), results, kind, "")
        assert "Seeds in these tables: Helmholtz, κ = 3.5π: 1." in table and "as in the paper (Helmholtz)" in table


def test_what_is_solved_and_what_is_rounding_is_marked(load):
    tables, conditions = load("robust_tables"), load("conditions")
    solved = seed_of("robust", "heat", 0, (1.0, 1.0, 1.0), "coordinates")
    solved.settings["pi"]["operator"]["kind"] = "solved"
    assert conditions.has_network([solved], "robust", "heat")  # two methods of it are trained
    for settings in solved.settings.values():
        settings["operator"]["kind"] = "solved"
    assert not conditions.has_network([solved], "robust", "heat")
    certificate = {"method": "robust", "attack": "certified", "setting": "0.10"}
    for whole, rounding, text in (
        (2e-5, 1.9e-5, "2.0e-05 (rounding bound)"),
        (2e-5, 5e-6, "2.0e-05"),
        (2.0, 0.1, "no useful bound (2.0e+00)"),
    ):
        values = {"relative_l2": whole, "rounding": rounding}
        rows = [certificate | {"metric": metric, "value": value} for metric, value in values.items()]
        assert tables.certified(summarise([dataclasses.replace(solved, rows=rows)]), "heat") == text
    assert tables.certified({}, "heat") == "–"


def test_the_spread_names_the_inputs_that_decide(load):
    spread = load("spread")
    squares = np.ones(200)
    squares[:2] = 99.0
    found = spread.spread(Measured(error=squares, solution=np.full(200, 4.0)))
    assert found["share_of_worst"] == pytest.approx(0.5)
    assert (found["median"], found["max"]) == (0.5, pytest.approx(np.sqrt(99) / 2))
    assert found["pooled"] == pytest.approx(np.sqrt(396 / 800))
    assert spread.sampling("helmholtz-3.5pi") is None
