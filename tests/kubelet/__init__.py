"""On a node that runs pods (`make kubelet`)."""
