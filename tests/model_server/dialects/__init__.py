"""The four ways to ask a model. Each module reads a request, and writes a reply whole or as a stream."""
