"""`python -m warplog` is the command `warplog`."""

from warplog.cli import main

if __name__ == "__main__":
    main()
