"""A table before its domain is declared: what may be asked of it, at what price, and how it is looked at."""
