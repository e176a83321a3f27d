"""Report: rows in, tables and figures out."""
