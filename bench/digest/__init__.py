"""From a run to the documentation: small files of figures, and tables made of nothing else."""
