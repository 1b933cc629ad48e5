"""Two-round calls of Framehold beside what others offer for the same: ratios from one run.

Law: every peer does the same work for the same question and answer, each in the way its own documentation shows, and
each result is checked. A peer that cannot be had here is shown as "not available" with its reason.
"""
