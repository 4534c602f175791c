"""A bottleneck hunt: the example application set to bottlenecks that are known, and what an assessment says of each."""
