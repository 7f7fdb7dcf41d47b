"""The ledger: what was paid, by whom and for what, in a chain that is durable before anything is shown."""
