"""Reports for people: sections with notes and tables, in formats that show the strings of others safely.

section    the types
markdown   as Markdown
html       as one page
"""
