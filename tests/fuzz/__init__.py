"""The fuzzer: what it throws is what it says, and what it once broke stays mended."""
