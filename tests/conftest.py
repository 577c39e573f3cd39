"""Shared settings and the data folder that some tests read."""

import os
import signal
from pathlib import Path

# the matrices of the tests are small: BLAS threads would only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# without it scikit-learn skips its check of array API input
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import HealthCheck, settings

# what a shell starts in the background ignores Ctrl-C, and so would the programs that the tests start
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "spdcluster",
    deadline=None,
    max_examples=100,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("spdcluster")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data: $SPDCLUSTER_DATA, or ../shared/data beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SPDCLUSTER_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder}; name one in SPDCLUSTER_DATA")
    return folder
