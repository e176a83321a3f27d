"""What the benchmarks conclude from their numbers; the numbers themselves are theirs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROBLEMS = ("poisson", "heat", "burgers", "helmholtz-3.5pi")


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
