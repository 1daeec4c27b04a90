"""The VS Code front end: the other end of the extension's pipe."""
