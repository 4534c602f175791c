"""The commands, one file each: they parse, call and print; no logic."""
