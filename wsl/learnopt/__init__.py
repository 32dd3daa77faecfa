"""Learned optimization: optimizers that are encoders of gradients, and how they are trained.

Everything works on *lanes*: many trainings of one architecture, stacked along the first dimension of every
tensor and advanced in one vectorised step.
"""
