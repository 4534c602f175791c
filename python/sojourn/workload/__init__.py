"""The load on a system: access logs, the sites of their documents, file sets, test films."""
