"""The figures of online answering: the newest of each kind, and their plot."""

import json

from benchmarks import online


def figure(what="textbook PMW", cells=128, epsilon=2.0, **more):
    return {
        "what": what,
        "cells": cells,
        "popularity": "zipf",
        "epsilon spent": epsilon,
        "answered": 5,
    } | more


def test_the_newest_figure_of_each_design_counts_and_others_are_left_out():
    told = [figure(epsilon=9.0), figure(), figure(cells=1728), {"what": "free answers per second"}]
    found = online.newest([json.dumps({"figures": f}) for f in told])
    assert found == [figure(), figure(cells=1728)]


def test_the_plot_names_every_design_and_universe():
    drawn = online.draw([figure(what=name, cells=cells) for name in online.DESIGNS for cells in (128, 1728)])
    assert drawn.startswith("<svg")
    assert all(name in drawn for name in online.DESIGNS)
    assert "1,728 cells, zipf" in drawn
