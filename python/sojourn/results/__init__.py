"""Result storage: run folders, and the records that several kinds of run share."""
