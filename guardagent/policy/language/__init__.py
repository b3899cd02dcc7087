"""The rule language: grammar, parser, syntax tree and values.

The grammar in `language.lark` gives a parse tree; the parser checks all names in it and builds the syntax tree.
Propositional rules become formulas of linear temporal logic over finite traces. Errors show a caret and a likely
correction. Numbers are exact, and strings are never coerced.
"""
