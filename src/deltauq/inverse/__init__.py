"""Inverse design: inputs with a given target value, found in the latent space of a generator."""

from deltauq.utils.install import import_optional

import_optional("torch", "deltauq.inverse needs PyTorch", "nn")

from deltauq.inverse.generator import Generator
from deltauq.inverse.latent_search import SearchResult, latents_of, scale_of, search
from deltauq.inverse.training import fit_generator

__all__ = ["Generator", "SearchResult", "fit_generator", "latents_of", "scale_of", "search"]
