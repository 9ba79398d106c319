"""Helpers that every package of deltauq may use; none of them knows about anchoring."""
