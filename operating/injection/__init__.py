"""Puts a sidecar into brokers' pods as they are made: a mutating admission webhook of Kubernetes.

The nouns: a *review* (`reviews`) is what the API server asks, and is answered with a JSON patch or a refusal; the
*addition* (`addition`) is what a pod has with its sidecar and has not without; `injecting` decides, purely, what a pod
gets; `server` listens, with a certificate that is read again when it changes.
"""
