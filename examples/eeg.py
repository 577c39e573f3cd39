"""EEG-like trials through a pyRiemann pipeline: covariances of microvolts, 1e-12 V^2, as they are.

Run: python examples/eeg.py
"""

import matplotlib.pyplot as plt
import numpy as np
from pyriemann.estimation import Covariances
from sklearn.pipeline import make_pipeline

from spdcluster import KernelSSC
from spdcluster.metrics import clustering_accuracy

rng = np.random.default_rng(0)
n_trials, n_channels, n_times = 150, 16, 256
states = np.repeat([0, 1, 2], n_trials // 3)

# each state has sources of its own strength; the strength also drifts from trial to trial
mixing = rng.normal(size=(n_channels, n_channels))
strength = np.exp(rng.normal(scale=0.8, size=(3, n_channels)))
drift = np.exp(0.3 * rng.normal(size=(n_trials, n_channels)))
sources = rng.normal(size=(n_trials, n_channels, n_times))
sources *= (strength[states] * drift)[:, :, np.newaxis]
trials = 1e-7 * (mixing @ sources)  # volts

pipeline = make_pipeline(Covariances("lwf"), KernelSSC(n_clusters=3, random_state=0))
labels = pipeline.fit_predict(trials)
model = pipeline[-1]
print(f"mean variance {np.var(trials):.0e} V^2, accuracy {clustering_accuracy(states, labels):.1%}")

order = np.argsort(labels, kind="stable")
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
axes[0].spy(model.affinity_.tocsr()[order][:, order], markersize=2)
axes[0].set_title("who is coded by whom, in the order of clusters")
axes[1].scatter(*model.embedding_[:, 1:].T, c=labels, s=14)
axes[1].set_title("spectral embedding")
figure.savefig("eeg.png", dpi=120)
print("saved eeg.png")
