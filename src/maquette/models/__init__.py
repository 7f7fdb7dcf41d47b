"""Public models of a table, computed from what the gate released: post-processing, free of charge."""
