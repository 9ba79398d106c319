"""`deltauq.load`."""

import pytest
import torch

import deltauq
from deltauq.nn import MLP, Anchored


def test_network(tmp_path):
    x = torch.randn(30, 3)
    net = Anchored(MLP(3), 6)
    net.set_anchors(x)
    net.save(tmp_path / "net.safetensors")
    again = deltauq.load(tmp_path / "net.safetensors")
    for name in ("mean", "var"):
        torch.testing.assert_close(getattr(again.posterior(x), name), getattr(net.posterior(x), name))


def test_any_file_name(tmp_path):
    net = Anchored(MLP(3), 6)
    net.set_anchors(torch.randn(30, 3))
    for name in ("net", "net.bin", "net.v2"):
        net.save(tmp_path / name)
        assert torch.equal(deltauq.load(tmp_path / name).anchors, net.anchors)


def test_load_invalid_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*absent"):
        deltauq.load(tmp_path / "absent.safetensors")
    other = tmp_path / "model.pkl"
    other.write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        deltauq.load(other)
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError):
        deltauq.load(other)
