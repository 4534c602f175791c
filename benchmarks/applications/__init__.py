"""A bottleneck hunt: assesses applications with known bottlenecks, and counts how many the assessment finds."""
