"""What earlier releases wrote, read by the code that is here now: see README.md.

`tools` are the handlers whose calls were parked, `forms` the small things that are stored or sent, `dumps` whole calls
as they stood in a store, `write` makes a version's files.
"""
