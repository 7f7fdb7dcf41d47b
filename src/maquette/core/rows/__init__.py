"""The records: from a reader's columns to codes, and from codes to exact sums."""
