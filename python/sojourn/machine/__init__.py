"""The machine of a run: its description, its cores, and limits below its capacity."""
