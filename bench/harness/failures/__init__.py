"""What the experiments on failures share: a scene of real processes, a steady load, the records."""
