"""Other systems: figures quoted from earlier measurements, and a runner for those that can be run again."""
