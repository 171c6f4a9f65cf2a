"""Fixtures that more than one folder of tests uses."""

from tests.upstream import upstream, upstream_process

__all__ = ["upstream", "upstream_process"]
