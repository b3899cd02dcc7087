"""The formats of a report on an audit: one file per format.

A format is a module of this package with the name of the format, and with

    SUFFIX: str                             the suffix of files in this format
    render(report: AuditReport) -> bytes

To add a format, add a file. The formats for people share the modules with a leading underscore.
"""
