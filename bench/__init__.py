"""Experiments: ``python -m bench list`` names them, one folder per question."""
