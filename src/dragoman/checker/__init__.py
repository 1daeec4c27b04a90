"""The checker behind `dragoman check`: probes, verdicts, and the rules of an endpoint's events."""
