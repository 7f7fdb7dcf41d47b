"""MST and AIM on the inference and the row generator of `mbi` 2: a script for an environment of its own.

Written from the papers (McKenna, Miklau and Sheldon 2021; McKenna, Mullins, Sheldon and Miklau 2022) with their
constants; not the authors' scripts, which need an older `mbi`. Marginals outside the model are contracted in numpy,
because `mbi` compiles a program for each. Reads coded columns from one npz file,
writes synthetic ones to another and prints one JSON line.

    pip install "mbi>=2,<3"
    python mbi_runner.py table.npz rows.npz --mechanism mst --rho 0.015 --seed 0
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time
from importlib import metadata

import jax  # pyright: ignore[reportMissingImports]
import networkx as nx  # pyright: ignore[reportMissingModuleSource]
import numpy as np
import opt_einsum  # pyright: ignore[reportMissingImports]
from scipy.special import logsumexp

jax.config.update("jax_enable_x64", True)

from mbi import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    Dataset,
    Domain,
    LinearMeasurement,
    estimation,
    junction_tree,
)


def measure(data, cliques, sigma, rng):
    """Every marginal with Gaussian noise of deviation sigma."""
    found = []
    for clique in cliques:
        exact = np.asarray(data.project(clique).datavector())
        found.append(LinearMeasurement(exact + rng.normal(0, sigma, exact.size), clique, stddev=sigma))
    return found


def choose(scores, epsilon, sensitivity, rng):
    """The exponential mechanism."""
    weights = 0.5 * epsilon / sensitivity * np.asarray(scores)
    return int(rng.choice(len(weights), p=np.exp(weights - logsumexp(weights))))


def mst(data, rho, rng, _args, _clock):
    """A third of the budget for 1-way marginals, for choosing a spanning tree, and for its edges."""
    sigma = np.sqrt(3 * len(data.domain) / (2 * rho))
    ones = measure(data, [(a,) for a in data.domain], sigma, rng)
    total = estimation.minimum_variance_unbiased_total(ones)
    mapping = {}
    for found in ones:  # values below three deviations share one cell
        kept = np.asarray(found.noisy_measurement) >= 3 * sigma
        if not kept.all():
            mapping[found.clique[0]] = np.where(kept, np.cumsum(kept) - 1, kept.sum())
    small = data.compress(mapping)
    ones = [found.compress(mapping, data.domain) for found in ones]
    edges = spanning_tree(small, ones, total, rho / 3, rng)
    twos = measure(small, edges, np.sqrt(3 * len(edges) / (2 * rho)), rng)
    model = estimation.MirrorDescent().estimate(small.domain, ones + twos, known_total=total, iters=2500)
    return model.synthetic_data().decompress(mapping), {"spent": 1.0}


def spanning_tree(data, ones, total, rho, rng):
    """Edges by the exponential mechanism on how far a pair is from independence of the noisy 1-way marginals."""
    shares = {}
    for found in ones:
        cells = np.maximum(counts(found), 0)
        shares[found.clique[0]] = cells / max(cells.sum(), 1)
    pairs = list(itertools.combinations(data.domain, 2))
    scores = {}
    for a, b in pairs:
        exact = np.asarray(data.project((a, b)).datavector())
        scores[a, b] = np.abs(exact - total * np.outer(shares[a], shares[b]).ravel()).sum()
    tree = nx.utils.UnionFind(data.domain)
    edges = []
    epsilon = np.sqrt(8 * rho / (len(data.domain) - 1))
    while len(edges) < len(data.domain) - 1:
        left = [pair for pair in pairs if tree[pair[0]] != tree[pair[1]]]
        chosen = left[choose([scores[pair] for pair in left], epsilon, 1.0, rng)]
        tree.union(*chosen)
        edges.append(chosen)
    return edges


def counts(found):
    """A measurement as counts per cell; after compression a shared cell is stated in another scale."""
    return np.asarray(found.noisy_measurement) / np.asarray(getattr(found.query, "weights", 1.0))


def aim(data, rho, rng, args, clock):
    """Rounds: choose the worst approximated marginal, measure it; less noise after a round that taught nothing."""
    weights = compile_workload(data.domain, args.order)
    answers = {clique: np.asarray(data.project(clique).datavector()) for clique in weights}
    rounds = 16 * len(data.domain)
    sigma, epsilon = np.sqrt(rounds / (2 * 0.9 * rho)), np.sqrt(8 * 0.1 * rho / rounds)
    ones = [clique for clique in weights if len(clique) == 1]
    log = measure(data, ones, sigma, rng)
    used = len(ones) * 0.5 / sigma**2
    engine = estimation.MirrorDescent()
    model = engine.estimate(data.domain, log, iters=1000)
    last = False
    while not last and time.process_time() - clock < args.cap:
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            left = rho - used
            sigma, epsilon, last = np.sqrt(1 / (2 * 0.9 * left)), np.sqrt(8 * 0.1 * left), True
        used += epsilon**2 / 8 + 0.5 / sigma**2
        fitting = affordable(weights, data.domain, log, args.size * used / rho)
        guess = contract(model)
        bias = np.sqrt(2 / np.pi) * sigma
        scores = [
            weights[c] * (np.abs(answers[c] - guess(c)).sum() - bias * answers[c].size) for c in fitting
        ]
        clique = fitting[choose(scores, epsilon, max(weights[c] for c in fitting), rng)]
        before = guess(clique)
        log += measure(data, [clique], sigma, rng)
        model = engine.estimate(data.domain, log, iters=1000, warm_start=model)
        if np.abs(contract(model)(clique) - before).sum() <= bias * before.size:
            sigma, epsilon = sigma / 2, epsilon * 2
    rows = model.synthetic_data()
    return rows, {"spent": float(min(used / rho, 1.0)), "rounds": len(log) - len(ones)}


def compile_workload(domain, order):
    """All marginals below the workload, weighted by how much they share with it."""
    wanted = [set(clique) for clique in itertools.combinations(domain, order)]
    below = [c for k in range(1, order + 1) for c in itertools.combinations(domain, k)]
    return {clique: float(sum(len(set(clique) & w) for w in wanted)) for clique in below}


def affordable(weights, domain, log, size):
    """Marginals that keep the model below the size in megabytes, or lie inside it anyway."""
    cliques = list(dict.fromkeys(found.clique for found in log))
    inside = [set(clique) for clique in cliques]
    return [
        clique
        for clique in weights
        if any(set(clique) <= one for one in inside)
        or junction_tree.hypothetical_model_size(domain, [*cliques, clique]) <= size
    ]


def contract(model):
    """Marginals of a fitted model, each once, by contracting its factors."""
    letters = {a: opt_einsum.get_symbol(i) for i, a in enumerate(model.domain)}
    factors = {}
    for clique in model.potentials.cliques:
        table = np.asarray(model.potentials[clique].datavector(flatten=False))
        names = tuple(model.potentials[clique].domain)
        factors[names] = np.exp(table - table.max())
    known = {}

    def guess(clique):
        if clique not in known:
            loose = [a for a in model.domain if not any(a in names for names in factors)]
            terms = list(factors.items()) + [((a,), np.ones(model.domain.size((a,)))) for a in loose]
            left = ",".join("".join(letters[a] for a in names) for names, _ in terms)
            right = "".join(letters[a] for a in clique)
            table = opt_einsum.contract(f"{left}->{right}", *(t for _, t in terms), optimize="greedy").ravel()
            known[clique] = table * (float(model.total) / table.sum())
        return known[clique]

    return guess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("rows")
    parser.add_argument("--mechanism", choices=("mst", "aim"), required=True)
    parser.add_argument("--rho", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", type=int, default=3, help="AIM: trained for all marginals of this order")
    parser.add_argument("--size", type=float, default=1.0, help="AIM: model size in megabytes")
    parser.add_argument(
        "--cap", type=float, default=600.0, help="AIM: processor seconds after which it stops"
    )
    args = parser.parse_args()
    held = np.load(args.table)
    sizes = {name: int(size) for name, size in zip(held["names"], held["sizes"], strict=True)}
    data = Dataset({name: held[f"column-{i}"] for i, name in enumerate(sizes)}, Domain.fromdict(sizes))
    rng = np.random.default_rng(args.seed)
    np.random.seed(args.seed)  # noqa: NPY002  (the row generator of mbi reads the global state)
    started = time.process_time()
    rows, facts = {"mst": mst, "aim": aim}[args.mechanism](data, args.rho, rng, args, started)
    seconds = time.process_time() - started
    np.savez(args.rows, **{f"column-{i}": rows.data[name] for i, name in enumerate(sizes)})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"processor seconds": round(seconds, 1), "peak MB": round(peak), "mbi": metadata.version("mbi")}
    print(json.dumps(found | facts))


if __name__ == "__main__":
    main()
