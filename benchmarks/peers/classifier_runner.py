"""A classifier trained on some rows and tried on others: a script for an environment with scikit-learn.

Reads two npz files of coded columns, prints one JSON line with the area under the ROC curve. A target of more than two
codes is predicted as its lower half against its upper half, split at the median of the rows that it is tried on.

    python classifier_runner.py rows.npz rest.npz 13
"""

from __future__ import annotations

import json
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier  # pyright: ignore[reportMissingImports]
from sklearn.metrics import roc_auc_score  # pyright: ignore[reportMissingImports]


def main() -> None:
    rows, rest = (
        np.column_stack([held[f"column-{i}"] for i in range(sum(k.startswith("column-") for k in held))])
        for held in (np.load(path) for path in sys.argv[1:3])
    )
    place = int(sys.argv[3])
    border = np.median(rest[:, place]) if rest[:, place].max() > 1 else 0
    others = [i for i in range(rest.shape[1]) if i != place]
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(rows[:, others], rows[:, place] > border)
    chances = model.predict_proba(rest[:, others])[:, 1]
    print(json.dumps({"AUC": round(float(roc_auc_score(rest[:, place] > border, chances)), 4)}))


if __name__ == "__main__":
    main()
