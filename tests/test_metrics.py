"""Accuracy under the best renaming of the clusters, against brute force over all renamings."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdcluster.metrics import clustering_accuracy, match_labels


def brute_force_accuracy(y_true, y_pred):
    """Try every one-to-one map of clusters to classes; None stands for 'no class'."""
    classes, clusters = sorted(set(y_true)), sorted(set(y_pred))
    targets = classes + [None] * max(0, len(clusters) - len(classes))
    best = 0
    for image in permutations(targets, len(clusters)):
        rename = dict(zip(clusters, image))
        best = max(best, sum(rename[p] == t for t, p in zip(y_true, y_pred)))
    return best / len(y_true)


labelings = st.integers(1, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-2, 2), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


@settings(max_examples=60, deadline=None)
@given(labelings)
def test_accuracy_is_the_best_over_all_renamings(labels):
    y_true, y_pred = labels
    expected = brute_force_accuracy(y_true, y_pred)
    assert clustering_accuracy(y_true, y_pred) == pytest.approx(expected, abs=1e-15)
    renamed = match_labels(y_true, y_pred)
    assert np.mean(renamed == np.array(y_true)) == pytest.approx(expected, abs=1e-15)
    pairs = set(zip(y_pred, renamed.tolist()))
    assert len(pairs) == len(set(y_pred)) == len(set(renamed.tolist())), "not one to one"


@pytest.mark.parametrize(
    ("y_true", "y_pred", "accuracy"),
    [
        (["b", "b", "a"], [7, 7, -3], 1.0),
        ([-1, -1, 5, 5], ["x", "y", "y", "y"], 0.75),
        ([True, False, False], [0, 1, 1], 1.0),
        ([0, 0, 0, 0], [0, 1, 2, 3], 0.25),
        ([0, 1, 2, 3], [0, 0, 0, 0], 0.25),
        ([0.5, 1.5], [1.5, 0.5], 1.0),
        (np.array(["a", "b"], dtype=object), [1, 0], 1.0),
    ],
)
def test_any_labels_and_numbers_of_clusters_are_accepted(y_true, y_pred, accuracy):
    assert clustering_accuracy(y_true, y_pred) == accuracy


def test_clusters_without_a_class_get_names_that_no_class_has():
    assert match_labels([4, 4, 9, 9, 9], [0, 0, 1, 1, 2]).tolist() == [4, 4, 9, 9, 10]
    renamed = match_labels(["a", "a", "unmatched 1"], [0, 1, 2]).tolist()
    assert renamed[2] == "unmatched 1"
    assert set(renamed[:2]) == {"a", "unmatched 2"}
    assert match_labels([True, True, False], [0, 1, 2]).tolist()[2] == 0


@pytest.mark.parametrize("function", [clustering_accuracy, match_labels])
@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "message"),
    [
        ([0, 1], [0, 1, 1], ValueError, "got 2 and 3 labels"),
        ([], [], ValueError, "y_true must hold at least one label"),
        ([0], [[0]], ValueError, r"y_pred must be a 1-D array of labels; got shape \(1, 1\)"),
        (3, [0], ValueError, r"y_true must be a 1-D array of labels; got shape \(\)"),
        ([0.0, np.nan], [0, 1], ValueError, "y_true must hold no NaN"),
        (np.array([1, "a"], dtype=object), [0, 1], TypeError, "y_true must hold labels of one"),
        ([[0], [0, 1]], [0, 1], ValueError, "y_true must be a 1-D sequence"),
    ],
)
def test_bad_labels_give_one_clear_error(function, y_true, y_pred, error, message):
    with pytest.raises(error, match=message):
        function(y_true, y_pred)
