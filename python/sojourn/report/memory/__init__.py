"""The memory sweep: surfaces, curves and latencies as a page and as tables."""
