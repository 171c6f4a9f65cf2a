"""Tool calls for models that have none: described in the prompt, and read out of the text."""
