"""A real Kubernetes API server on this machine: what manifests, charts and webhooks meet in a cluster, but no node.

The nouns: *programs* (`programs`) are etcd, kube-apiserver, kube-controller-manager and helm, compiled once from Go
modules into the cache; *clients* (`clients`) are kubectl and helm, which come as a locked package; a `ControlPlane`
(`control_plane`) is the servers while they run. Nothing schedules pods and nothing runs them: pods are objects here.
"""
