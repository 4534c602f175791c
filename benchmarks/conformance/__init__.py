"""The proxy's cache under the public suite http-cache-tests."""
