"""Conditions over the calls of a conversation, in Kleene's three-valued logic.

Terms and patterns are compiled to functions. What they need of the history is kept up to date as calls are recorded,
so that a check costs the same in the thousandth call as in the first. A value that is missing makes a condition
*unknown*, which denies, with what to find out. Calls in flight are followed in every way in which they can end.
"""
