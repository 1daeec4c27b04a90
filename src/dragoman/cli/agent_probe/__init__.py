"""Examines an agent for `dragoman doctor MODEL`: starts it in a scratch folder, asks it to act, and watches."""
