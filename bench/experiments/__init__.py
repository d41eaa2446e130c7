"""One folder per question, each with a README: question, method, pass rule, result, limits."""
