"""A small polarimetric scene: 3 x 3 Hermitian coherency matrices of speckled pixels, four grounds.

Run: python examples/radar.py
"""

import matplotlib.pyplot as plt
import numpy as np

from spdcluster import KernelSSC
from spdcluster.metrics import clustering_accuracy

rng = np.random.default_rng(0)
side, looks = 48, 16
y, x = np.mgrid[:side, :side] / side
field = (y > 0.55 + 0.1 * np.sin(6 * x)).astype(int)
ground = np.where(
    np.hypot(x - 0.7, y - 0.3) < 0.18, 3, np.where(x + 0.2 * y < 0.45, field, 2 * field)
)

# what radar sees of water, crops, forest and town (made up: power and correlation of 3 channels)
power = np.array([[0.02, 0.004, 0.001], [0.05, 0.03, 0.01], [0.06, 0.06, 0.05], [0.3, 0.5, 0.08]])
correlation = np.array([0.7 + 0.1j, 0.3 - 0.2j, 0.05 + 0.0j, -0.4 + 0.3j])
T = np.zeros((4, 3, 3), dtype=complex)
T[:, range(3), range(3)] = power
T[:, 0, 1] = correlation * np.sqrt(power[:, 0] * power[:, 1])
T[:, 1, 0] = T[:, 0, 1].conj()

# speckle: the mean of a few looks at circular Gaussian scatterers (a complex Wishart matrix)
root = np.linalg.cholesky(T)[ground.ravel()]
noise = rng.normal(size=(side**2, 3, looks)) + 1j * rng.normal(size=(side**2, 3, looks))
scatter = root @ noise / np.sqrt(2)
X = scatter @ scatter.conj().swapaxes(1, 2) / looks

model = KernelSSC(n_clusters=4, n_components=8, eigenvalue_power=2.0, random_state=0).fit(X)
accuracy = clustering_accuracy(ground.ravel(), model.labels_)
print(f"{len(X)} Hermitian matrices, accuracy {accuracy:.1%}, largest gap {model.dual_gap_:.0e}")

# Pauli colours: the diagonal, each channel on its own logarithmic scale
pauli = np.log(np.diagonal(X, axis1=1, axis2=2).real).reshape(side, side, 3)
pauli = (pauli - pauli.min(axis=(0, 1))) / np.ptp(pauli, axis=(0, 1))
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
pictures = (pauli, model.labels_.reshape(side, side), ground)
titles = ("the scene", f"clusters, accuracy {accuracy:.1%}", "truth (colours are arbitrary)")
for ax, picture, title in zip(axes, pictures, titles):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(title)
    ax.set_axis_off()
figure.savefig("radar.png", dpi=120)
print("saved radar.png")
