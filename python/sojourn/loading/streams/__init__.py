"""Runs of viewers: `sojourn load rtsp://…`. What a stream's run has other figures for than a run of requests."""
