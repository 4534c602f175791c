"""The memory benchmark: our bandwidths beside those of mbw and of STREAM, where they measure the same thing."""
