"""Which conversation a request belongs to: normal histories, records, identification and leases."""
