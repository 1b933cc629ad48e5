"""From what a run measured to a page that a reader can judge it by: `data` in, `page.write` out.

Law: nothing here measures, and nothing here judges by hand. A page shows what report.json holds, what `arithmetic` and
`winners` compute from it, and the reason for each value that it does not hold.
"""
