"""The machine that a run is measured on: its description, its cores, and limits below what it has."""
