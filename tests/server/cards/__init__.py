"""Tests of the cards of approvals."""
