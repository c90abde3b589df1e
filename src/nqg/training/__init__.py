"""Training: one loop with resume, best weights and seeds, on one process or several."""
