"""What a router counts, and how counters and histograms are written for Prometheus."""
