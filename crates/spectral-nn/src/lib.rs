//! Populations of neural networks with explicit forward and backward passes.
