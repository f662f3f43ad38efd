"""Tests of proxy.quotas."""
