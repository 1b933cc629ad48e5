"""How counters and histograms are kept and written for Prometheus, and how bursts of log lines are kept short."""
