"""The texture features: intensity and its first and second derivatives."""

import numpy as np

DERIVATIVES = ("central", "simple")


class TextureFeatures:
    """``I, |Ix|, |Iy|, |Ixx|, |Iyy|``, and with `signed` also ``Ix, Iy, Ixx, Iyy``.

    x runs along the columns, y along the rows.

    Parameters
    ----------
    derivative : {"central", "simple"}
        "central": half the difference of the two neighbours, one-sided at the border, and the
        second derivative is the first one of the first one (`numpy.gradient` twice). "simple":
        the filters [-1 0 1] and [-1 2 -1], with the border pixels repeated.
    signed : bool
        Whether the derivatives themselves follow their absolute values.
    """

    def __init__(self, derivative: str, signed: bool) -> None:
        self.derivative = derivative
        self.signed = signed
        self.names = ["I", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|"]
        if signed:
            self.names += ["Ix", "Iy", "Ixx", "Iyy"]

    def __call__(self, images: np.ndarray, out: np.ndarray) -> None:
        """Write the features of `images` (n_images, h, w) to `out` (n_images, d, h, w)."""
        derivatives = out[:, 5:] if self.signed else out[:, 1:]
        out[:, 0] = images
        for image, (x, y, xx, yy) in zip(images, derivatives):
            if self.derivative == "central":
                for values, first, second in ((image.T, x.T, xx.T), (image, y, yy)):
                    _gradient(values, first)
                    _gradient(first, second)
            else:
                for values, first, second in ((image.T, x.T, xx.T), (image, y, yy)):
                    _differences(values, first, second)
        np.abs(derivatives, out=out[:, 1:5])


def _gradient(values: np.ndarray, out: np.ndarray) -> None:
    """`numpy.gradient` along the first axis, to the last bit, without its temporary arrays."""
    np.subtract(values[2:], values[:-2], out=out[1:-1])
    out[1:-1] *= 0.5
    np.subtract(values[1], values[0], out=out[0])
    np.subtract(values[-1], values[-2], out=out[-1])


def _differences(values: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """The filters [-1 0 1] and [-1 2 -1] along the first axis, border values repeated."""
    np.subtract(values[2:], values[:-2], out=first[1:-1])
    np.subtract(values[1], values[0], out=first[0])
    np.subtract(values[-1], values[-2], out=first[-1])
    np.multiply(values, 2.0, out=second)
    second[1:] -= values[:-1]
    second[:-1] -= values[1:]
    second[0] -= values[0]
    second[-1] -= values[-1]
