"""What happened in each conversation, as a list of events: their types, their fold, their store, their writer."""
