"""One self-contained HTML file from a run folder."""
