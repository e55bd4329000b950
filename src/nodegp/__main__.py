"""`python -m nodegp`: the command line."""

from nodegp.cli import main

if __name__ == "__main__":
    main()
