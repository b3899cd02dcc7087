"""The formats of a report on a translation: one file per format.

A format is a module of this package with the name of the format, and with

    NAME: str                                    the name for people
    SUFFIX: str                                  the suffix of files in this format
    render(summary: TranslationSummary) -> str

To add a format, add a file. The formats for people share the modules with a leading underscore.
"""
