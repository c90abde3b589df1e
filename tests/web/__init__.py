"""Tests of the web stage; a package, so that its conftest is not mistaken for the one above."""
