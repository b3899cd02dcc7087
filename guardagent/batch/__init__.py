"""Batch judging of files of any size.

A file is read in chunks of whole lines. Several processes judge the lines independently, and the results come in the
order of the file. An unreadable line is an error of its own. Results are durable, and an interrupted run can resume.
"""
