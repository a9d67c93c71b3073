"""The report of a run: one HTML page and one Markdown summary, made from plain values (``ReportData``)."""
