"""What `analyze-trace` says: an analysis in words, as tables, and as files."""
