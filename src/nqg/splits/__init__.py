"""Train/test splits, how they are made, and what they measure."""
