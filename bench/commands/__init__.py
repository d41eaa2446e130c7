"""Commands that work on the results of experiments and measure nothing themselves."""
