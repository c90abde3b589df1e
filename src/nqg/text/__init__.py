"""From what people write to tokens and values, and back."""
