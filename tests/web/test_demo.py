"""The demonstration: what it promises to somebody who sees it for the first time."""

from __future__ import annotations

import pytest

from maquette.web.config import prepare_demo
from maquette.web.holder import Holder


def test_every_analyst_of_the_demonstration_has_a_hundred_useful_questions(tmp_path):
    config = prepare_demo(tmp_path)
    holder = Holder(config, "people")
    try:
        for who, error in (("anna", 0.015), ("bert", 0.03)):
            holder.buy_size(who, "analyst")
            forecast = holder.forecast(who, "age >= 60")
            assert forecast["error"] == pytest.approx(error, abs=1e-6)
            assert 100 * forecast["cost"] <= forecast["left"]
    finally:
        holder.close()
    assert prepare_demo(tmp_path).settings == config.settings  # what is there goes on
