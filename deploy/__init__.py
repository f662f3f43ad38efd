"""The files that are installed beside the sidecar: manifests, rules, a dashboard.

Only the dashboard is made by code.
"""
