"""`prism individuals`: every animal for itself, shrunk towards all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prism_irl import limits
from prism_irl.cli.options import CommonOptions
from prism_irl.errors import InputError, one_line


def individuals(
    run: Path,
    *,
    unit: str | None = None,
    seed: int = 0,
    method: str | None = None,
    common: CommonOptions = CommonOptions(),
) -> None:
    """Say how often each animal has each intention, and which animals differ from the others.

    Numbers, policies and rewards of an animal are shrunk towards those of all animals, as much as predicts its other
    trajectories best; tables and a figure (a row per animal) are left in the run folder.

    Example: prism individuals runs/mouse --unit animal

    Parameters
    ----------
    run
        Folder of a prism fit.
    unit
        Column with the animal [default: the --group of the fit].
    seed
        Of the permutations.
    method
        MODULE:CLASS of the model, where it is not one of this package.
    """
    from prism_irl import storage
    from prism_irl.cli.fitted import open_run_data
    from prism_irl.cli.printing import print_json
    from prism_irl.cli.report import write_again
    from prism_irl.cli.runs import adding
    from prism_irl.report.verdict import doubts
    from prism_irl.studies import individuals as study
    from prism_irl.studies import results

    limits.check_option("seed", seed)
    data = open_run_data(run, method)
    name = unit or data.group_column
    if name is None:
        raise InputError("What is an animal? Name its column with --unit.")
    found = study.individuals(data.model, data.demos, data.column(name, "unit"), unit_name=name, seed=seed)
    known = storage.read_object(run / "metrics.json")
    found["in_words"] = " ".join([found["in_words"], *(finding.text for finding in doubts(known))])
    choices = found.pop("choices")
    with adding(run):
        results.write_rows(run / "individuals.csv", found["rows"])
        if choices:
            results.write_rows(run / "individual_rewards.csv", choices)
        else:
            (run / "individual_rewards.csv").unlink(missing_ok=True)
        storage.write_json(run / "individuals.json", found)
        draw_individuals(run / "figures", found, data.names)
        write_again(run)
    if common.json:
        print_json(found)
        return
    print(found["in_words"])
    more = f", {run / 'individual_rewards.csv'}" if choices else ""
    print(one_line(f"Table: {run / 'individuals.csv'}{more}; figure in {run / 'report.html'}"))


def draw_individuals(folder: Path, found: Mapping[str, Any], names: Sequence[str]) -> None:
    """A figure with a row per animal, and its caption."""
    from prism_irl.figures import charts as drawing
    from prism_irl.figures import style
    from prism_irl.studies import results

    with style.paper_style():
        height = 0.8 + 0.18 * found["n_units"]
        figure, axes = style.new_figure(1, len(names), width=1.0 + 2.0 * len(names), height=height, sharey=True)
        for k, ax in enumerate(axes):
            own = [row for row in found["rows"] if row["intention"] == k]
            drawing.unit_rows(ax, own, found["shared"]["usage"][k], color=style.intention_color(k))
            ax.set_title(style.short(names[k]))
        style.save(figure, folder / "individuals")
    caption = "Usage of each intention by every animal: open as it is, filled shrunk to what all do (line); ∗ differs."
    results.add_captions(folder, {"individuals": caption})
