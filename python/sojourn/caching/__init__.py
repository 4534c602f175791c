"""What a cache of a given size and policy would have made of a trace."""
