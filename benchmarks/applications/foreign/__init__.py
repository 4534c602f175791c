"""Applications that are not ours, behind nginx: DokuWiki from Debian under php-fpm, json-server from npm under Node."""
