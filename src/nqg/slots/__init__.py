"""Slots: values that sentences mention and programs write, and how a grammar reads them."""
