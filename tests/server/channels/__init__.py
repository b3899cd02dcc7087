"""Tests of the channels to people and programs."""
