"""The streaming benchmark: our server, GStreamer's and VLC's, by the cost and the number of conforming streams."""
