"""Errors of other systems, measured before at the same privacy and with the same metrics: quoted, not measured again.

max and mean L1 of the rows that the system writes (of the answers, for the Gaussian), delta = 1e-9, add/remove-one
unless said otherwise, one seed for the slow ones. AIM ran with a faster projection step, at equal answers.
"""

from __future__ import annotations

from typing import Any

SOURCE = "measured in November 2026 on a machine of the same kind; not measured again in this run"

AIM_1 = "AIM (mbi 2.0.0, 1 MB model, trained for 2-way marginals)"
AIM_1_OWN = "AIM (mbi 2.0.0, 1 MB model, trained for this workload)"
AIM_80 = "AIM (mbi 2.0.0, 80 MB model, trained for 3-way marginals)"
MST = "MST (mbi 2.0.0)"
BAYES = "PrivBayes (dpmm 0.1.9)"
GAUSSIAN = "residual-optimal Gaussian and simplex (answers, no rows)"
PEP = "PEP (dp-query-release, replace-one)"
GSD = "Private-GSD (1,000 rows, replace-one)"

FIGURES: dict[tuple[str, int, float], dict[str, tuple[float, float]]] = {
    ("adult", 2, 0.1): {AIM_1: (0.03424, 0.2333), MST: (0.08724, 0.2956), GAUSSIAN: (0.03695, 0.5858)},
    ("adult", 2, 1.0): {
        AIM_1: (0.01821, 0.0827),
        MST: (0.02657, 0.1032),
        BAYES: (0.07946, 0.1532),
        GAUSSIAN: (0.00431, 0.1659),
    },
    ("adult", 2, 10.0): {AIM_1: (0.01592, 0.0464), MST: (0.03878, 0.0822), GAUSSIAN: (0.00052, 0.0372)},
    ("adult", 3, 0.1): {AIM_1: (0.05764, 0.3840), MST: (0.08718, 0.5021), GAUSSIAN: (0.09164, 1.3615)},
    ("adult", 3, 1.0): {
        AIM_1_OWN: (0.01985, 0.1849),
        AIM_1: (0.02050, 0.1846),
        MST: (0.02843, 0.2247),
        BAYES: (0.07588, 0.2876),
        GAUSSIAN: (0.01136, 0.6875),
    },
    ("adult", 3, 10.0): {AIM_1: (0.01739, 0.1339), MST: (0.03790, 0.2000), GAUSSIAN: (0.00132, 0.2549)},
    ("adult-reduced", 3, 0.1): {
        AIM_80: (0.01884, 0.1995),
        PEP: (0.03161, 0.4571),
        GAUSSIAN: (0.01589, 0.4610),
    },
    ("adult-reduced", 3, 1.0): {
        AIM_80: (0.00441, 0.0639),
        PEP: (0.00596, 0.1466),
        GSD: (0.00682, 0.1484),
        GAUSSIAN: (0.00214, 0.0927),
    },
    ("adult-reduced", 3, 10.0): {
        AIM_80: (0.00252, 0.0220),
        PEP: (0.00447, 0.1269),
        GAUSSIAN: (0.00025, 0.0146),
    },
}


def beside(table: str, k: int, epsilon: float) -> dict[str, Any]:
    """What other systems reached on the same table and workload; empty if nothing is known."""
    found = FIGURES.get((table, k, epsilon), {})
    if not found:
        return {}
    return {"source": SOURCE} | {name: {"max": largest, "L1": l1} for name, (largest, l1) in found.items()}
