"""What every experiment shares: real servers and workers, measures, environment and report."""
