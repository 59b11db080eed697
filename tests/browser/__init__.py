"""Tests of the built site: in a real browser, and of its files."""
