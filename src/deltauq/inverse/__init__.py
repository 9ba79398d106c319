"""Inverse design: inputs that reach a target, found in the latent space of a generator."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("deltauq.inverse needs PyTorch: pip install 'deltauq[nn]'.") from error

from deltauq.inverse.forward import scale_of
from deltauq.inverse.generator import Generator
from deltauq.inverse.latents import latents_of
from deltauq.inverse.search import Found, search
from deltauq.inverse.training import fit_generator

__all__ = ["Found", "Generator", "fit_generator", "latents_of", "scale_of", "search"]
