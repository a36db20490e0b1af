"""Frames to tokens: encoders, embeddings, codebooks."""
