"""`prism init`: what the columns of a table are, written down once."""

from __future__ import annotations

from pathlib import Path

from prism_irl.cli.options import ColumnOptions, given
from prism_irl.errors import InputError, one_line


def init(
    table: Path,
    *,
    columns: ColumnOptions = ColumnOptions(),
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Find out what the columns of a table are, and write it to study.toml, which every command reads.

    Example: prism init mouse.csv

    Parameters
    ----------
    table
        A .csv, .tsv, .parquet or Excel file, or several as one pattern in quotes.
    out
        File to write [default: study.toml beside the table].
    overwrite
        Replace the file that is there.
    """
    from prism_irl.cli.recognise import recognise
    from prism_irl.cli.study import FILE, write_study

    target = table.parent / FILE if out is None else out
    if target.exists() and not overwrite:
        raise InputError(f"There is a {target} already; pass --overwrite to replace it, or another --out.")
    found = recognise(table, given(columns))
    try:
        write_study(target, table.name, found.columns, found.events, found.conditions)
    except OSError as error:
        raise InputError(f"Cannot write {target} ({error.strerror}); choose another --out.") from None
    print(one_line(found.said))
    print(one_line(f"Written to {target}; correct it there, and type prism analyze {table} next."))
