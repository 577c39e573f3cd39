"""The scikit-learn classes: parameters, validation, composition of the other rooms, nothing else."""
