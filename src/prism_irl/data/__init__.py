"""Demonstrations and how they come in and go out: tables, files, other libraries, histories, batches."""
