"""Training with verl: an agent loop, an advantage estimator and a data set."""
