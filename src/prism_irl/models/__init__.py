"""The named methods: each pairs a switching model with a reward model."""
