"""Three textures in one picture, found again from 5 x 5 covariances of sliding windows.

Run: python examples/textures.py
"""

import matplotlib.pyplot as plt

from spdcluster import KernelSSC
from spdcluster.datasets import texture_mosaic
from spdcluster.descriptors import RegionCovariance
from spdcluster.metrics import clustering_accuracy

mosaic = texture_mosaic()
windows = RegionCovariance(regions="window", size=48, stride=8)
X = windows.fit_transform([mosaic.image])

# twice as many eigenvectors as clusters, weighted by their eigenvalues: brick has mortar and stone,
# and this puts such sub-textures together again
model = KernelSSC(n_clusters=3, n_components=6, eigenvalue_power=2.0, random_state=0).fit(X)

centre = windows.size // 2
row, column = windows.regions_["row"] + centre, windows.regions_["column"] + centre
accuracy = clustering_accuracy(mosaic.truth[row, column], model.labels_)
print(f"{len(X)} windows, accuracy {accuracy:.1%}, largest gap {model.dual_gap_:.0e}")

figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
axes[0].imshow(mosaic.image, cmap="gray")
axes[0].set_title("three textures")
axes[1].imshow(windows.inverse_labels(model.labels_, overlap="majority")[0])
axes[1].set_title(f"clusters, accuracy {accuracy:.1%}")
axes[2].imshow(mosaic.truth)
axes[2].set_title("truth (colours are arbitrary)")
for ax in axes:
    ax.set_axis_off()
figure.savefig("textures.png", dpi=120)
print("saved textures.png")
