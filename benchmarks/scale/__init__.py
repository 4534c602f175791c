"""What a cluster costs, and what it gives on this machine: `local:N` beside one process, in turn."""
