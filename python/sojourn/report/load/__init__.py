"""Load runs and searches: the live view, the tables on the terminal, the pages."""
