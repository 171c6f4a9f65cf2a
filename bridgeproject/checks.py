"""System checks of a deployment: each has an id, a hint and a link to the docs."""
