"""What a dynamic request costs the server and gateway, beside others': make bench-dynamic."""
