"""The report, the last stage: written from the results there are."""

from __future__ import annotations

from tamis.results.records import Results


def write_report(found: Results) -> None:
    """Write the report, and one of its own for each part of a split study."""
    from tamis.report import page

    for each in (found, *found.parts):
        page.write_report(each, each.folder / "report.html")
