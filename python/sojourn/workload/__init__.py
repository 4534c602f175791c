"""What a system is asked for: access logs, the sites of their documents, file sets, test films."""
