"""The headings under which `prism --help` shows its commands, in this order."""

from cyclopts import Group

START = Group("Start here", sort_key=0)
OWN_DATA = Group("Your data", sort_key=1)
EXPERIMENTS = Group("Experiments", sort_key=2)
ROBOTS = Group("Robots", sort_key=3)
HELP = Group("Help", sort_key=4)
