"""A small web shop: what people have behind nginx, with knobs that make any part of it the bottleneck."""
