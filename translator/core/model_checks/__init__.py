"""What an upstream model can do for Claude Code through Bridge: small requests, and what to make of their answers."""
