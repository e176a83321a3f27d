"""The page of a report: well-formed, all in one file, nothing that crashes on what is missing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from report_cases import ERRORS, HOSTILE, fields_of, report, result_of, row, two_seeds

from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.experiments.report.figures import looks_of
from stablepdenet.experiments.report.gallery import gains_pictures
from stablepdenet.experiments.report.page import page
from stablepdenet.experiments.report.summary import summarise
from stablepdenet.experiments.report.svg import inline_svg
from stablepdenet.experiments.results import load_results, save_result


@pytest.fixture
def folder(tmp_path):
    return two_seeds(tmp_path)


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


def test_whatever_is_there_is_shown(tmp_path):
    rows = [row("burgers[viscosity=0.002]", "robust", 3, "none", "clean", "relative_l2", 0.125)]
    rows.append(row("burgers[viscosity=0.002]", HOSTILE, 3, "none", "clean", "relative_l2", 0.5))
    rows += [
        row("burgers[viscosity=0.002]", "robust", 3, "common", f"{e:.2f}", "kappa_E", 1.0) for e in (0.01, 0.02, 0.03)
    ]
    rows.append(row("burgers[viscosity=0.002]", "robust", 3, "common", "far off", "kappa_E", 1.0))
    bare: dict[str, Any] = {"settings": {}, "curves": {}, "seconds": {}, "versions": {}, "notes": []}
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
