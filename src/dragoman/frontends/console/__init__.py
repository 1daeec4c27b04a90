"""The console: the page of `dragoman serve`, on which people answer what agents ask."""
