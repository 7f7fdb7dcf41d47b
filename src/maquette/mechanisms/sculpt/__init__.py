"""Sculpt: measure well-chosen low-order tables, then carve a small database that answers the whole workload."""
