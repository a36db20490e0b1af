"""What each command of `prism` does; the command line itself is in `prism_irl.cli`."""
