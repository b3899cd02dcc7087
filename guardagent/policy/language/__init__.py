"""The language of rules.

Text, tree, typed syntax: the grammar in `language.lark`, then the syntax tree, in which all names are checked.
Propositional rules become formulas of linear temporal logic over finite traces. An error shows a caret, and the form
that was probably meant. Numbers are exact, and strings are never coerced.
"""
