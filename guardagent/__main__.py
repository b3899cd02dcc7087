"""`python -m guardagent` is the command line."""

from guardagent.cli.main import main

main()
