"""Conditions over the calls of a conversation, in Kleene's three-valued logic.

Terms and patterns are compiled to functions. History indexes are updated as calls are recorded, so a check of the
thousandth call costs as much as of the first. A missing value makes a condition *unknown*, which denies the call and
names the value. A condition is decided over every possible outcome of the calls in flight.
"""
