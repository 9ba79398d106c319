"""Corruptions against closed forms, other libraries' filters, and real images."""

import colorsys
import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from deltauq.data import load_images
from deltauq.utils import install_command
from experiments.data import CORRUPTIONS, FIGURE5, corrupt
from experiments.data.corruptions import SEVERITIES, blur, digital, generate, weather
from experiments.data.corruptions._arrays import mirror, reflect, sample
from experiments.data.corruptions.severities import DEFINITIONS

PICTURES = ("frost", "pixelate", "jpeg_compression")
BLURS = ("gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur")
FALLS = {
    "glass_blur": {(1, 2), (2, 3), (4, 5)},
    "motion_blur": {(3, 4)},
    "frost": {(3, 4), (4, 5)},
    "saturate": {(2, 3)},
    "elastic_transform": {(1, 2), (2, 3), (3, 4), (4, 5)},
    "spatter": {(3, 4)},
}
"""Where the published settings do not take the images farther away than the severity before."""


def settings(name, severity):
    return DEFINITIONS[name][1][severity - 1]


def streams(n, seed=0):
    return [np.random.default_rng((seed, k)) for k in range(n)]


def needs(name):
    """Skip where what a corruption needs is not installed."""
    if name in PICTURES:
        pytest.importorskip("PIL.Image")
    if name == "frost":
        try:
            weather.find_frost()
        except ModuleNotFoundError:
            pytest.skip("the pictures of frost are not here")


@pytest.fixture
def images():
    """Smooth random pictures, with a black, a white and a grey one among them."""
    rng = np.random.default_rng(0)
    pictures = ndimage.gaussian_filter(rng.uniform(-1, 2, (9, 32, 32, 3)), (0, 1.5, 1.5, 0))
    pictures = ((pictures - pictures.min()) / np.ptp(pictures) * 255).astype(np.uint8)
    pictures[:3] = np.array([0, 255, 128]).reshape(3, 1, 1, 1)
    return pictures


@pytest.fixture(scope="session")
def cifar(data_dir):
    pytest.importorskip("PIL.Image")
    return np.array(load_images("cifar10-test")[0][:400])


def test_names():
    assert len(CORRUPTIONS) == 19 and len(FIGURE5) == 16 and set(FIGURE5) < set(CORRUPTIONS)
    assert all(len(levels) == 5 for _, levels in DEFINITIONS.values())


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_does_not_depend_on_other_images(name, images, monkeypatch):
    needs(name)
    before = images.copy()
    for severity in SEVERITIES:
        whole = corrupt(images, name, severity)
        assert whole.dtype == np.uint8 and whole.shape == images.shape
        np.testing.assert_array_equal(whole, corrupt(images, name, severity))
        np.testing.assert_array_equal(whole[:4], corrupt(images[:4], name, severity))
    np.testing.assert_array_equal(images, before)
    monkeypatch.setattr(generate, "BLOCK", 2)
    np.testing.assert_array_equal(whole, corrupt(images, name, 5))
    chance = {"gaussian_blur", "defocus_blur", "zoom_blur", "brightness", "contrast", "saturate"}
    fixed = name in chance | {"pixelate", "jpeg_compression"}
    assert np.array_equal(whole, corrupt(images, name, 5, seed=1)) == fixed


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_distance_grows_with_severity(name, cifar):
    needs(name)
    distance = [np.mean((corrupt(cifar, name, s).astype(float) - cifar) ** 2) for s in SEVERITIES]
    falls = {(s, s + 1) for s in SEVERITIES[:-1] if distance[s] <= distance[s - 1] * 1.02}
    assert falls == FALLS.get(name, set())


def test_no_images_are_corrupted_to_none():
    assert corrupt(np.empty((0, 32, 32, 3), np.uint8), "fog", 1).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_moments_of_the_noise_on_grey(severity):
    level = 128
    grey = np.full((60, 32, 32, 3), level, np.uint8)
    spread = {
        "gaussian_noise": settings("gaussian_noise", severity)[0],
        "speckle_noise": settings("speckle_noise", severity)[0] * level / 255,
        "shot_noise": np.sqrt(level / 255 / settings("shot_noise", severity)[0]),
    }
    for name, expected in spread.items():
        noisy = corrupt(grey, name, severity).astype(float)
        # Levels are rounded down: half a level below, and a twelfth of its square wider.
        assert noisy.std() / 255 == pytest.approx(np.hypot(expected, np.sqrt(1 / 12) / 255), rel=0.02), name
        assert noisy.mean() == pytest.approx(level - 0.5, abs=0.6), name
    noisy = corrupt(grey, "impulse_noise", severity)
    amount = settings("impulse_noise", severity)[0]
    assert set(np.unique(noisy)) == {0, level, 255}
    for value in (0, 255):
        assert np.mean(noisy == value) == pytest.approx(amount / 2, rel=0.1)


def test_noise_of_images_channels_and_severities():
    grey = np.full((2, 32, 32, 3), 128, np.uint8)
    first, second = (corrupt(grey, "gaussian_noise", severity).astype(float) for severity in (1, 2))
    rows = [first[0, ..., 0], first[0, ..., 1], first[1, ..., 0], second[0, ..., 0]]
    correlation = np.corrcoef([row.ravel() for row in rows])
    assert np.abs(correlation - np.eye(4)).max() < 0.15


@given(
    colour=st.tuples(*[st.integers(0, 255)] * 3),
    name=st.sampled_from(BLURS),
    severity=st.sampled_from(SEVERITIES),
)
def test_blurs_leave_one_colour_as_it_is(colour, name, severity):
    image = np.full((1, 32, 32, 3), colour, np.uint8)
    np.testing.assert_array_equal(corrupt(image, name, severity), image)


@given(colour=st.tuples(*[st.integers(0, 255)] * 3), severity=st.sampled_from(SEVERITIES))
def test_other_corruptions_of_one_colour(colour, severity):
    image = np.full((1, 32, 32, 3), colour, np.uint8)
    for name in ("contrast", "elastic_transform", "pixelate"):
        needs(name)
        np.testing.assert_array_equal(corrupt(image, name, severity), image)


@given(colour=st.tuples(*[st.integers(0, 255)] * 3), severity=st.sampled_from(SEVERITIES))
def test_colours_are_those_of_hsv(colour, severity):
    image = np.full((1, 32, 32, 3), colour, np.uint8)
    hue, saturation, value = colorsys.rgb_to_hsv(*np.array(colour) / 255)
    more = settings("brightness", severity)[0]
    factor, plus = settings("saturate", severity)
    for name, expected in (
        ("brightness", (hue, saturation, min(value + more, 1))),
        ("saturate", (hue, min(saturation * factor + plus, 1), value)),
    ):
        pixel = corrupt(image, name, severity)[0, 0, 0]
        np.testing.assert_allclose(pixel, np.floor(255 * np.array(colorsys.hsv_to_rgb(*expected))), atol=1)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_shrinks_distances_from_the_mean(severity, images):
    x = images / 255
    mean = x.mean(axis=(1, 2), keepdims=True)
    expected = 255 * (mean + settings("contrast", severity)[0] * (x - mean))
    np.testing.assert_allclose(corrupt(images, "contrast", severity), expected - 0.5, atol=0.502)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_of_one_channel_is_scipys(severity, images):
    (sigma,) = settings("gaussian_blur", severity)
    expected = ndimage.gaussian_filter(images[5, ..., 1].astype(float), sigma, mode="nearest")
    blurred = corrupt(images, "gaussian_blur", severity)[5, ..., 1]
    np.testing.assert_allclose(blurred, expected - 0.5, atol=0.502)


def test_defocus_kernels():
    point = np.zeros((1, 32, 32, 3), np.float32)
    point[0, 16, 16] = 1
    box = blur.defocus_blur(point, streams(1), 1.5, 0.1)[0, 14:19, 14:19, 0]
    np.testing.assert_allclose(box[1:4, 1:4], 1 / 9, rtol=1e-5)
    assert np.count_nonzero(box > 1e-6) == 9
    soft = blur.defocus_blur(point, streams(1), 0.3, 0.4)[0, 15:18, 15:18, 0]
    side = np.exp(-1 / (2 * 0.4**2))
    line = np.array([side, 1, side]) / (1 + 2 * side)
    np.testing.assert_allclose(soft, np.outer(line, line), rtol=1e-5)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_glass_blur_is_the_published_loop(severity, images):
    sigma, rounds = settings("glass_blur", severity)
    x = (images[5:7] / 255).astype(np.float32)
    glass = blur.glass_blur(x, streams(2), sigma, rounds)
    for k, stream in enumerate(streams(2)):
        shifts = stream.integers(-1, 1, (rounds, 2, 30, 30))
        pixels = blur.to_bytes(ndimage.gaussian_filter(x[k], (sigma, sigma, 0), mode="nearest"))
        for turn in range(rounds):
            for row in range(31, 1, -1):
                for column in range(31, 1, -1):
                    down, right = shifts[turn, :, row - 2, column - 2]
                    here, there = pixels[row, column], pixels[row + down, column + right]
                    pixels[row, column], pixels[row + down, column + right] = there, here
        expected = ndimage.gaussian_filter(pixels / 255, (sigma, sigma, 0), mode="nearest")
        np.testing.assert_allclose(glass[k], expected, atol=1e-5)


@pytest.mark.parametrize("angle", [-135, -60, -20, 0, 33, 45, 90])
def test_streaks_are_a_correlation_along_a_line(angle, images):
    radius, sigma = 6, 2.0
    x = images[5:6] / 255
    kernel = np.zeros((27, 27))
    for step in range(2 * radius + 1):
        down, right = step * np.sin(np.deg2rad(angle)), step * np.cos(np.deg2rad(angle))
        row, column = int(np.ceil(down - 0.5)), int(np.ceil(right - 0.5))
        kernel[13 + row, 13 + column] += np.exp(-(step**2) / (2 * sigma**2))
    expected = ndimage.correlate(x[0, ..., 0], kernel / kernel.sum(), mode="nearest")
    streaked = blur.streak(x, np.array([angle]), radius, sigma)[0, ..., 0]
    np.testing.assert_allclose(streaked, expected, atol=0.51 / 255)


@pytest.mark.parametrize("zoom", [1.0, 1.01, 1.07, 1.25, 1.75, 2.25])
def test_zoom_is_scipys(zoom):
    x = np.random.default_rng(0).random((32, 32))
    kept = int(np.ceil(32 / zoom))
    start = (32 - kept) // 2
    larger = ndimage.zoom(x[start : start + kept, start : start + kept], zoom, order=1)
    trimmed = (len(larger) - 32) // 2
    weights = blur.zoom_weights(zoom)
    np.testing.assert_allclose(
        weights @ x @ weights.T, larger[trimmed : trimmed + 32, trimmed : trimmed + 32], atol=1e-12
    )


@pytest.mark.parametrize(("fold", "mode"), [(mirror, "mirror"), (reflect, "reflect")])
def test_reading_between_pixels_is_scipys(fold, mode):
    rng = np.random.default_rng(0)
    x = rng.random((2, 32, 32, 3))
    rows, columns = rng.uniform(-9, 41, (2, 2, 32, 32))
    read = sample(x, rows, columns, fold)
    for k in range(2):
        expected = ndimage.map_coordinates(x[k, ..., 2], [rows[k], columns[k]], order=1, mode=mode)
        np.testing.assert_allclose(read[k, ..., 2], expected, atol=1e-12)


def test_affine_part_of_the_elastic_transform():
    targets = digital.CORNERS + np.array([[2.0, 0.0], [0.0, -2.0], [1.0, 3.0]])
    places = digital._moved_back(targets[None])[0]
    for target, corner in zip(targets.astype(int), digital.CORNERS, strict=True):
        np.testing.assert_allclose(places[target[1], target[0]], corner, atol=1e-9)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_range_of_fog(severity):
    level = 200
    image = np.full((5, 32, 32, 3), level, np.uint8)
    foggy = corrupt(image, "fog", severity)
    strength, _ = settings("fog", severity)
    darkest = level * (level / 255) / (level / 255 + strength)
    np.testing.assert_array_equal(foggy.min(axis=(1, 2, 3)), int(darkest))
    np.testing.assert_array_equal(foggy.max(axis=(1, 2, 3)), level)
    assert not corrupt(np.zeros_like(image), "fog", severity).any()


def cloud_point_by_point(stream, decay):
    """Diamond-square over a dictionary of points; beyond the border is the other side."""
    noise = iter(stream.uniform(-1, 1, 1023))
    heights = {(0, 0): 0.0}
    straight, slanted = ((0, 1), (0, -1), (1, 0), (-1, 0)), ((1, 1), (1, -1), (-1, 1), (-1, -1))
    for level in range(5):
        step, scale = 32 >> level, 100 / decay**level
        half = step // 2
        for down, right in ((half, half), (0, half), (half, 0)):
            ways = slanted if down == right else straight
            for row in range(down, 32, step):
                for column in range(right, 32, step):
                    around = [heights[(row + half * i) % 32, (column + half * j) % 32] for i, j in ways]
                    heights[row, column] = sum(around) / 4 + scale**2 * next(noise)
    cloud = np.array([[heights[row, column] for column in range(32)] for row in range(32)])
    return (cloud - cloud.min()) / np.ptp(cloud)


@pytest.mark.parametrize("decay", [1.75, 3])
def test_clouds_are_those_of_diamond_square(decay):
    expected = [cloud_point_by_point(stream, decay) for stream in streams(2)]
    np.testing.assert_allclose(weather.plasma(streams(2), decay), expected, atol=1e-9)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_adds_a_piece_of_a_picture(severity, images, tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "frost").mkdir()
    for name in weather.FROST:
        Image.new("RGB", (300, 250), (40, 80, 120)).save(
            tmp_path / "frost" / name, quality=100, subsampling=0
        )
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path))
    weight, frost_weight = settings("frost", severity)
    expected = np.minimum(weight * images + frost_weight * np.array([40, 80, 120]), 255)
    np.testing.assert_allclose(corrupt(images, "frost", severity), expected - 0.5, atol=1.1)


def test_frost_uses_all_images_and_many_positions():
    needs("frost")
    frosty = corrupt(np.zeros((200, 32, 32, 3), np.uint8), "frost", 5)
    assert len(np.unique(frosty.reshape(200, -1), axis=0)) > 190
    pictures = weather._frost_pictures(weather.find_frost())
    assert [picture.shape[:2] for picture in pictures] == [
        (120, 180),
        (63, 112),
        (63, 112),
        (70, 105),
        (99, 132),
    ]


def test_missing_frost_images(images, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "imagecorruptions", None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps imagecorruptions"):
        corrupt(images, "frost", 1)


@pytest.mark.parametrize("name", ["pixelate", "jpeg_compression"])
def test_missing_pillow(name, images, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ImportError, match=re.escape(install_command("images"))):
        corrupt(images, name, 1)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow_whitens(severity, images):
    snowy = corrupt(images, "snow", severity).astype(int)
    assert (snowy >= images.astype(int) - 1).all() and snowy.mean() > images.mean() + 1
    assert (snowy[1] == 255).all()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_compression_and_pixels_are_pillows(severity, images):
    Image = pytest.importorskip("PIL.Image")
    (quality,) = settings("jpeg_compression", severity)
    with io.BytesIO() as stream:
        Image.fromarray(images[5]).save(stream, "JPEG", quality=quality)
        np.testing.assert_array_equal(corrupt(images, "jpeg_compression", severity)[5], Image.open(stream))
    small = int(32 * settings("pixelate", severity)[0])
    box = Image.Resampling.BOX
    expected = Image.fromarray(images[5]).resize((small, small), box).resize((32, 32), box)
    np.testing.assert_array_equal(corrupt(images, "pixelate", severity)[5], expected)


def test_spatter_is_water_then_mud():
    grey = np.full((20, 32, 32, 3), 100, np.uint8)
    for severity in SEVERITIES:
        change = corrupt(grey, "spatter", severity).astype(int) - 100
        spattered = change.any(axis=-1)
        assert 0.005 < spattered.mean() < 0.4
        if severity < 4:
            assert (change >= 0).all() and (change[..., 1] >= change[..., 0]).all()
        else:
            # At least four parts of mud in five: between that and mud alone.
            mud = change[spattered] + 100
            assert (mud >= [62, 41, 19]).all() and (mud <= [71, 54, 36]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 32, 32, 3)), "fog", 1), r"uint8 of shape \(n, 32, 32, 3\), got float64"),
        ((np.zeros((2, 28, 28, 3), np.uint8), "fog", 1), r"got uint8 of shape \(2, 28, 28, 3\)"),
        ((np.zeros((32, 32, 3), np.uint8), "fog", 1), r"got uint8 of shape \(32, 32, 3\)"),
        ((np.zeros((2, 32, 32, 3), np.uint8), "rain", 1), "corruption must be one of .*, got 'rain'"),
        ((np.zeros((2, 32, 32, 3), np.uint8), "fog", 0), r"severity must be one of \[1, 2, 3, 4, 5\], got 0"),
        ((np.zeros((2, 32, 32, 3), np.uint8), "fog", 2.0), "severity must be one of .*, got 2.0"),
        ((np.zeros((2, 32, 32, 3), np.uint8), "fog", True), "severity must be one of .*, got True"),
        ((np.zeros((2, 32, 32, 3), np.uint8), "fog", 1, -1), "seed must be a whole number .*, got -1"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        corrupt(*arguments)
