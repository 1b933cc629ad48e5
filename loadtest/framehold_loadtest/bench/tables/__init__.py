"""What the benchmark prints: one table of rows for each section, and all targets beside their figures."""
