"""The commands, one file each: they parse options, call the library and print. They contain no other logic."""
