"""The Messages API, as clients speak it."""
