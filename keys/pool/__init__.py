"""Which credential serves an attempt, and what its answer means: pure decisions.

No clock, no randomness and no I/O of its own: `now` is Unix time in seconds, `jitter` is in [0, 1).
"""
