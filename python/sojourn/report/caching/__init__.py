"""Cache simulations: miss-ratio curves as a page and as a table."""
