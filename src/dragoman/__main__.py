"""`python -m dragoman`."""

from dragoman.cli import entry

if __name__ == "__main__":
    entry()
