"""The report, the last stage: written from the results there are."""

from __future__ import annotations

from tamis.results.records import Results
from tamis.results.study import save_study


def write_report(found: Results) -> None:
    """Write the report, and one of its own for each part of a split study, beside the record it is made from."""
    from tamis.report import page

    save_study(found.folder, found.study)
    for each in (found, *found.parts):
        page.write_report(each, each.folder / "report.html")
