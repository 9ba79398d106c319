"""Order and masks of an epoch, and the preparation of images."""

import numpy as np
import torch

from deltauq.nn.training import Recipe, as_inputs
from deltauq.nn.training.loader import BatchPairing, crop_and_flip, draw_order


def test_batches_are_masked_at_the_given_rate():
    recipe = Recipe(batch_size=10, mask=0.25)
    masked = torch.cat(
        [draw_order(1000, recipe, epoch, BatchPairing(1), drop_last=True)[0].masked for epoch in range(20)]
    )
    assert abs(float(masked.float().mean()) - 0.25) < 4 * (0.25 * 0.75 / 2000) ** 0.5


def test_crops_and_mirrors_are_those_of_numpy():
    images = torch.randint(1, 255, (6, 3, 8, 8), dtype=torch.uint8)
    rows = torch.tensor([4, 4, 0, 5])
    actual = crop_and_flip(images, rows, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    top, left = (torch.randint(9, (4, 1), generator=generator)[:, 0] for _ in range(2))
    flip = torch.randint(2, (4, 1), generator=generator, dtype=torch.bool)[:, 0]
    assert flip.any() and not flip.all()
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    for k, row in enumerate(rows):
        crop = padded[row, :, top[k] : top[k] + 8, left[k] : left[k] + 8]
        np.testing.assert_array_equal(actual[k], crop[..., ::-1] if flip[k] else crop)


def test_images_are_scaled_and_normalised_by_channel():
    images = torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0])
    x = as_inputs(images, (mean, std), channels_last=True)
    expected = (images.double() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-6)
    assert x.is_contiguous(memory_format=torch.channels_last)
