"""What stands above a table: which trunk its numbers have, which parameters, and which attack they are under."""

import textwrap

from stablepdenet.experiments.campaign.job import FEW, FEWER
from stablepdenet.experiments.report.settings import conditions

COMMON = "Attack: one common perturbation for all, found against the PI-DeepONet of the same seed."
ZOO = "Attack: one common perturbation for all, found against the zoo's PI-DeepONet of seed 0."
OWN = (
    "Attack: each operator's own worst case, by projected gradient ascent on its true error "
    f"({FEW} test inputs; robust: {FEWER})."
)
BOTH = f"{ZOO} Worst case: each operator's own, found by ascent on its true error"
NONE = "No attack."
WIDTH = 118


def above(table, results, attack, *recipes):
    """The table under a line of its conditions."""
    told = []
    for recipe in recipes:
        sentence = conditions([result for result in results if result.recipe == recipe])
        told.append(f"`{recipe}`: {sentence}" if len(recipes) > 1 else sentence)
    return f"{wrapped(' '.join([*told, attack]))}\n\n{table}"


def wrapped(text):
    """Lines that fit a screen."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def has_network(results, recipe, problem):
    """Whether what a recipe makes of a problem is trained; `solve` is a spectral least-squares solver."""
    own = [r for r in results if (r.recipe, r.problem) == (recipe, problem)]
    return any(settings["operator"]["kind"] != "solved" for r in own for settings in r.settings.values())
