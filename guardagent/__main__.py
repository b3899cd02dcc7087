"""`python -m guardagent` is the command line."""

from guardagent.cli import main

main()
