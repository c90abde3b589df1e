"""Recipes from data to a row of the paper's tables, the records of what was run, and the tables made of them."""
