"""The page of a fit."""
