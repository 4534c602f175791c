"""The memory benchmark: compares our bandwidths with those of mbw and STREAM where they measure the same."""
