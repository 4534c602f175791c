"""An assessment of an application, on the terminal and as a page."""
