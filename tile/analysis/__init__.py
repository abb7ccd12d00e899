"""Questions about IR and their answers; nothing here changes it."""
