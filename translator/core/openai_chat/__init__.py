"""Chat completions, as most upstreams speak it."""
