"""Which theorem each function of the theory states, and in which text it stands.

The page of theorems is written from this table (`tools/make_theorem_page.py`), and a test holds that every public
function of the package is in it exactly once.
"""

from __future__ import annotations

from typing import NamedTuple


class Theorem(NamedTuple):
    """One statement of a text and the functions that compute it."""

    name: str
    source: str
    functions: tuple[str, ...]


BLR = "Blum, Ligett and Roth 2008; Dwork and Roth 2014, section 4.1"
OWN = "derived here"

THEOREMS = (
    Theorem(
        "SmallDB: some m rows are near every table, by sampling (Chernoff and union bound)",
        BLR,
        ("existence.sampling", "existence.sampling_rows"),
    ),
    Theorem(
        "Sums stay near their means: Hoeffding, Azuma, multiplicative Chernoff",
        "Hoeffding 1963; Azuma 1967; Chernoff 1952; one upper tail as a lecture prints it, which fails",
        (
            "tails.hoeffding",
            "tails.azuma",
            "tails.chernoff_above",
            "tails.chernoff_below",
            "tails.chernoff_printed",
            "tails.chernoff_printed_limit",
        ),
    ),
    Theorem(
        "Randomised response",
        "Warner 1965; Dwork and Roth 2014, section 3.2",
        ("tails.honest_share", "tails.randomised_response"),
    ),
    Theorem(
        "Other small databases: rounding, the table itself, quantiles, covers, disjoint attributes",
        OWN,
        (
            "existence.rounding",
            "existence.itself",
            "existence.thresholds",
            "existence.intervals",
            "existence.cover",
            "existence.disjoint",
            "existence.disjoint_parts",
            "existence.forms",
            "existence.facts_of",
        ),
    ),
    Theorem(
        "The number of small databases",
        OWN,
        ("existence.log_multisets", "existence.log_sequences", "existence.log_tree"),
    ),
    Theorem(
        "Utility of the exponential mechanism",
        "McSherry and Talwar 2007; Dwork and Roth 2014, Theorem 3.11",
        ("smalldb.selection", "multiplicative.selection"),
    ),
    Theorem(
        "SmallDB's error, at every m and at the best one",
        BLR,
        (
            "smalldb.error",
            "smalldb.nearest",
            "smalldb.rows_for",
            "smalldb.best",
            "smalldb.closed_form",
        ),
    ),
    Theorem("Records that SmallDB needs", BLR, ("smalldb.records", "smalldb.records_at")),
    Theorem(
        "SmallDB as textbooks print it, exact, loose and wrong",
        "Dwork and Roth 2014, Propositions 4.3 to 4.5, Theorem 4.6, and lectures",
        (
            "textbook.rows",
            "textbook.error_at",
            "textbook.error_minimised",
            "textbook.records_exact",
            "textbook.records_printed",
            "textbook.error_exact",
            "textbook.error_printed",
            "textbook.counts_printed",
            "textbook.counts_corrected",
            "textbook.sampling_failure",
            "textbook.records_handwritten",
            "textbook.rows_weak",
            "textbook.error_weak",
        ),
    ),
    Theorem(
        "Relative usefulness for weighted tables, corrected",
        "Roth 2010, Theorem 5",
        ("smalldb.relative_records", "smalldb.usefulness"),
    ),
    Theorem("Sauer's lemma", "Sauer 1972, Shelah 1972", ("lower.growth", "lower.log_growth")),
    Theorem(
        "Sampling with a VC dimension instead of ln k",
        "Vapnik and Chervonenkis 1971; constants derived here",
        ("lower.support_error", "lower.free_error", "lower.free_rows"),
    ),
    Theorem(
        "A cover by the fat-shattering dimension",
        "Alon, Ben-David, Cesa-Bianchi and Haussler 1997; Bartlett and Long 1995; constants proved here",
        ("lower.fat_cover", "lower.free_fat_error", "lower.free_fat_rows"),
    ),
    Theorem(
        "The lower bound from a shattered set, corrected",
        "Roth 2010, Theorem 2",
        (
            "lower.from_vc",
            "lower.from_levels",
            "lower.from_fat_shattering",
            "lower.counts",
            "lower.fraction",
            "lower.hops",
            "guarantees.floor_of",
        ),
    ),
    Theorem(
        "ln|X| is needed: packing",
        "Beimel, Kasiviswanathan and Nissim 2010; constants proved here",
        ("lower.packing_records",),
    ),
    Theorem("What a private release lets anyone reconstruct", OWN, ("lower.recovered",)),
    Theorem(
        "The Laplace mechanism: union bound and exact quantile",
        "Dwork, McSherry, Nissim and Smith 2006; Dwork and Roth 2014, Theorem 3.8",
        (
            "draws.laplace_union",
            "draws.laplace_exact",
            "draws.laplace_discrete",
            "draws.laplace_one_sided",
            "draws.log_failure",
            "direct.laplace",
            "direct.size_geometric",
        ),
    ),
    Theorem(
        "The Gaussian mechanism: union bound, exact quantile, analytic sigma",
        "Balle and Wang 2018; Bun and Steinke 2016; Canonne, Kamath and Steinke 2020",
        (
            "draws.gaussian_union",
            "draws.gaussian_exact",
            "draws.gaussian_discrete",
            "draws.gaussian_one_sided",
            "draws.gaussian_mixture",
            "draws.gaussian_two_sided",
            "draws.one_shot_sigma",
            "direct.gaussian_one_shot",
            "direct.size_gaussian",
            "guarantees.rho_of",
        ),
    ),
    Theorem(
        "L-infinity noise",
        "Steinke and Ullman 2016",
        ("draws.cube_continuous", "draws.cube_integer", "draws.cube_log_shells", "direct.linf"),
    ),
    Theorem(
        "The K-norm mechanism and its rate",
        "Hardt and Talwar 2010",
        (
            "guarantees.knorm",
            "guarantees.hardt_talwar",
            "guarantees.hardt_talwar_crossing",
            "draws.norm_lattice",
            "draws.norm_answers",
        ),
    ),
    Theorem(
        "Advanced composition",
        "Dwork, Rothblum and Vadhan 2010; Dwork and Roth 2014, Theorem 3.20",
        ("guarantees.composed_laplace",),
    ),
    Theorem(
        "One noisy histogram for every query",
        OWN,
        (
            "direct.histogram_laplace",
            "direct.histogram_laplace_tail",
            "direct.histogram_discrete_laplace",
            "direct.histogram_gaussian",
            "direct.histogram_gaussian_exact",
            "direct.histogram_gaussian_max",
            "direct.laplace_cumulant",
        ),
    ),
    Theorem(
        "A consistent noisy tree",
        "Hay, Rastogi, Miklau and Suciu 2010; tails derived here",
        ("direct.tree_nodes", "direct.tree_laplace", "direct.tree_gaussian", "guarantees.tree"),
    ),
    Theorem(
        "The matrix mechanism: linear sums of what is measured",
        "Li, Hay, Rastogi, Miklau and McGregor 2010; McKenna, Miklau, Hay and Machanavajjhala 2018; tails derived here",
        (
            "direct.linear_laplace",
            "direct.linear_gaussian",
        ),
    ),
    Theorem(
        "Answers to a database by a linear program, and other post-processing",
        "Dwork, Naor, Reingold, Rothblum and Vadhan 2009",
        ("direct.fitted_error", "direct.consistent_error", "direct.shifted_error", "textbook.boosted_order"),
    ),
    Theorem(
        "Projection to what some table could answer",
        "Nikolov, Talwar and Zhang 2013",
        ("direct.projection_rmse",),
    ),
    Theorem("A certificate: the largest error, measured", "Hotelling 1939", ("ratios.dependent_gap",)),
    Theorem(
        "Multiplicative weights learn",
        "Hardt and Rothblum 2010; Dwork and Roth 2014, Theorem 4.10; constants derived here",
        (
            "multiplicative.updates",
            "multiplicative.entropy_drop",
            "multiplicative.learning",
            "multiplicative.step_size",
        ),
    ),
    Theorem(
        "Offline multiplicative weights with private selection",
        "Hardt and Rothblum 2010; signed selection derived here",
        (
            "multiplicative.mw",
            "multiplicative.mw_pure",
            "multiplicative.mw_zcdp",
            "multiplicative.best_rounds",
        ),
    ),
    Theorem(
        "MWEM",
        "Hardt, Ligett and McSherry 2012",
        (
            "multiplicative.mwem",
            "multiplicative.mwem_pure",
            "multiplicative.mwem_zcdp",
            "multiplicative.mwem_afterwards",
        ),
    ),
    Theorem(
        "Sparse vector: accuracy and the best split",
        "Dwork and Roth 2014, Theorems 3.24 and 3.26; Lyu, Su and Li 2017",
        ("online.svt_accuracy", "online.sparse_width", "online.svt_split"),
    ),
    Theorem(
        "Private multiplicative weights",
        "Hardt and Rothblum 2010; Dwork and Roth 2014, Theorem 4.14",
        (
            "online.pmw",
            "epochs.pure_noise",
            "epochs.concentrated_noise",
            "epochs.split_pure",
            "epochs.split_zcdp",
        ),
    ),
    Theorem(
        "The median mechanism",
        "Roth and Roughgarden 2010",
        ("online.median", "epochs.median_split_pure", "epochs.median_split_zcdp"),
    ),
    Theorem(
        "Epochs of a session that spends as needed",
        OWN,
        (
            "epochs.spend_as_needed",
            "epochs.miss_probability",
            "epochs.laplace_reach",
            "epochs.gaussian_reach",
        ),
    ),
    Theorem(
        "A share of a noisy number of records",
        "Fieller 1954",
        (
            "ratios.share_between",
            "ratios.one_share_between",
            "ratios.gaussian_gap",
            "ratios.laplace_gap",
            "ratios.joint_gap",
            "adaptive.shared_gap",
            "adaptive.failure",
            "adaptive.least_room",
        ),
    ),
    Theorem(
        "From the table to the population",
        "Hoeffding 1963",
        (
            "population.sampling_share",
            "population.population_error",
            "population.agnostic_error",
            "population.adaptive_error",
            "population.replace_one",
        ),
    ),
    Theorem(
        "All bounds side by side, and what a target error needs",
        OWN,
        (
            "overview.bounds",
            "overview.mechanisms",
            "overview.records",
            "overview.needs",
            "overview.needs_of",
            "overview.crossover",
            "overview.curve",
            "guarantees.applicable",
            "guarantees.guarantee",
            "guarantees.best_smalldb",
            "guarantees.useful_forms",
            "guarantees.with_queries",
        ),
    ),
    Theorem(
        "Exact search for the best whole number",
        OWN,
        (
            "search.smallest",
            "search.valley",
            "search.lowest",
            "search.records",
            "search.epsilon",
            "draws.rising_root",
        ),
    ),
)


def theorem_of(function: str) -> Theorem:
    """The theorem behind a function, such as "smalldb.best"."""
    for one in THEOREMS:
        if function in one.functions:
            return one
    raise KeyError(f"no function of the theory is called {function!r}; see maquette.theory.sources.THEOREMS")
