"""Inverse design: inputs with a given target value, found in the latent space of a generator."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from deltauq.utils.install import install_command

    raise ImportError(f"deltauq.inverse needs PyTorch: {install_command('nn')}.") from error

from deltauq.inverse.generator import Generator
from deltauq.inverse.latent_search import SearchResult, latents_of, scale_of, search
from deltauq.inverse.training import fit_generator

__all__ = ["Generator", "SearchResult", "fit_generator", "latents_of", "scale_of", "search"]
