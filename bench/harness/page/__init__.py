"""The page of a run: one file that can be opened anywhere, with everything in it."""
