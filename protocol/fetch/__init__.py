"""Fetch (api key 1): its field tables, its walkers, and requests and responses taken apart and put together."""
