"""The gate: who may come in, slow clients, and how errors are answered."""
