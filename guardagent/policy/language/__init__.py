"""The language of rules: grammar, parser, syntax tree, printing, values."""
