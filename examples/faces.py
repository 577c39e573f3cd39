"""Faces or not: 43 x 43 Gabor covariances of the small patches that scikit-image carries.

Run: python examples/faces.py
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import lfw_subset

from spdcluster import KernelSSC
from spdcluster.descriptors import RegionCovariance
from spdcluster.metrics import clustering_accuracy

images = lfw_subset()  # 100 faces, then 100 patches of background, 25 x 25 pixels each
truth = np.repeat(["face", "background"], 100)

# the patches are small: wavelengths of 2.5 to 10 pixels, and some shrinkage for 43 features
covariances = RegionCovariance(
    features="gabor", wavelengths=(2.5, 3.5, 5.0, 7.1, 10.0), standardize=True, shrinkage=0.01
)
X = covariances.fit_transform(images)
model = KernelSSC(n_clusters=2, random_state=0).fit(X)
accuracy = clustering_accuracy(truth, model.labels_)
print(f"{len(X)} matrices of {X.shape[1]} x {X.shape[2]}, accuracy {accuracy:.1%}")

# exemplars: the members that the rest of their cluster leans on most when it is coded
figure, axes = plt.subplots(2, 8, figsize=(11, 3.2), layout="constrained")
for k, row in enumerate(axes):
    members = np.flatnonzero(model.labels_ == k)
    usage = model.affinity_[members][:, members].sum(axis=1)
    exemplars = members[np.argsort(-usage)][:8]
    for ax, i in zip(row, exemplars):
        ax.imshow(images[i], cmap="gray")
        ax.set_axis_off()
    row[0].set_title(f"cluster {k}: {len(members)} patches", loc="left")
figure.savefig("faces.png", dpi=120)
print("saved faces.png")
