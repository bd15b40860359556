"""Reports: records in, one self-contained HTML file out, with its figures and numbers beside it."""

from __future__ import annotations

from tamis.report.compare import write_comparison
from tamis.report.page import write_report

__all__ = ["write_comparison", "write_report"]
