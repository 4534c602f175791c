"""Starting and stopping the shop, and its users. The standard library alone."""
