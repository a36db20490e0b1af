"""The calibration of `prism evidence`: how often it finds intentions that are not there, or misses those that are."""
