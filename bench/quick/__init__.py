"""Every experiment at the size of a smoke test, each with a check that nothing of it is missing."""
