"""The parts of the in-process store, one step of the data path each."""
