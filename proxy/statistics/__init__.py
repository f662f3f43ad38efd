"""What is counted and measured for people and the exporter, and never decides anything."""
