"""Rules that decide about an action before a person is asked. Design: docs/policy-design.md."""
