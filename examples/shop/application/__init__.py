"""A small web shop to run behind nginx, with knobs that make any part of it the bottleneck."""
