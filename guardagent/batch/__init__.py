"""Many runs at once.

A file of any size is read in chunks of whole lines, each line is judged by itself, in several processes, and the
results come in the order of the file. A bad line is an error of its own; results survive their writer, and a run that
was interrupted goes on.
"""
