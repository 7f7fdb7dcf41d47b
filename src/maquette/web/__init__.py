"""The service: pages and an HTTP interface over releases, sessions and ledgers.

Nothing here looks at a row. The web front works on public values; a table is opened by a worker, a process of its own,
which asks it through the public interface of the library.
"""
