"""What a system test or a document believes of a benchmark; the rest of what measures has no tests."""
