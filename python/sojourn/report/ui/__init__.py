"""The page of `sojourn ui`: an editor of system files as a drawing, the runs of a folder, and comparisons of two."""
