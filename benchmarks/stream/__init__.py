"""Our streaming server beside GStreamer's and VLC's: what a stream costs, and how many of them conform."""
