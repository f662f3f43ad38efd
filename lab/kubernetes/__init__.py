"""A real Kubernetes cluster on this machine: what manifests, charts and policies meet, and a node if pods are to run.

The nouns: *programs* (`programs`) are etcd, kube-apiserver, kubelet, containerd and the like, compiled once from Go
modules into the cache; *clients* (`clients`) are kubectl and helm, which come as a locked package; a `ControlPlane`
(`control_plane`) is the servers while they run, to which pods are objects; a `Node` (`node`) is a kubelet with
containerd beside them, in namespaces of its own, by which pods run. `broker/` is what a broker's image starts with.
"""
