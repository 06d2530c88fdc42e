"""`python -m principia` is the command `principia`."""

from principia.lab.cli import main

if __name__ == "__main__":
    main()
