"""Synthetic and recorded work to offer a deployment: pure, seeded, the same on every machine."""
