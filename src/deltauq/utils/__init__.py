"""General helpers for all packages of deltauq."""
