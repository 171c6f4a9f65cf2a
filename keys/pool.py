"""Which credential serves an attempt, and what its answer means: pure decisions."""
