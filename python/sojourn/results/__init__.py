"""How results are stored: run folders, and the records that several kinds of run share."""
