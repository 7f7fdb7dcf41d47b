"""The release of several tables: rows that belong together, answers across tables, and their files."""

from maquette.linked.release import LinkedRelease

__all__ = ["LinkedRelease"]
