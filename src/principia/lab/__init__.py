"""The machinery: pages, claims, evidence, experiments, the command line. It knows no chapter."""
