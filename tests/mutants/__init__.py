"""Takes one decision of what ships out at a time, and looks who notices: `make mutants`."""
