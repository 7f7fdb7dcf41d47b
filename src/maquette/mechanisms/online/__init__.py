"""Strategies for questions that come one at a time: what to pay, what to believe. Public numbers only."""
