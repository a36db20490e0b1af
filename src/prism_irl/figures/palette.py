"""The colours of intentions, for figures and for pages, which need no matplotlib."""

from __future__ import annotations

from prism_irl.errors import InputError

# Okabe–Ito, without its black in front and with yellow late: the first ones differ in lightness too (grey printers)
# and keep their contrast on white. Four of Tol's follow, for phases, of which ten are found at most.
PALETTE: tuple[str, ...] = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
PALETTE += ("#882255", "#999933", "#332288", "#BBBBBB")


def intention_color(k: int) -> str:
    """Return the colour of intention ``k``, the same everywhere; the palette starts again after twelve."""
    if k < 0:
        raise InputError(f"There is no intention {k}; intentions are numbered from 0.")
    return PALETTE[k % len(PALETTE)]
