"""Everything that is published of a commit, in dist/: `python -m deploy.release`, which `make release` runs."""
