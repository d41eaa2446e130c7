"""Pure scheduling policies: one file each, selected by name in the registry."""
