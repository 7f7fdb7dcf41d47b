"""Single tools of the theory on a private table, each through the gate: a private choice, the sparse vector."""
