"""What is in deploy/: rules, dashboard, manifests."""
