"""More data and more fits than one process holds: data-parallel EM, fits over a cluster, estimates of memory."""
