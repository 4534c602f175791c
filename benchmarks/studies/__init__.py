"""All studies in a budget, and one page of what they found: the acceptance test of the whole."""
