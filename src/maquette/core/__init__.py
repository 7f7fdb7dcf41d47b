"""The code that privacy depends on. It imports nothing else of the package."""
