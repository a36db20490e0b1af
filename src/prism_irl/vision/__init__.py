"""From frames and continuous actions to tokens: encoders, cached embeddings, clustering and the tokenizer."""
