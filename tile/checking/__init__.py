"""Looking for what results depend on and should not: launches made again in other ways."""
