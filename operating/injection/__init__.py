"""Puts a sidecar into brokers' pods as they are made: a mutating admission webhook of Kubernetes.

The nouns: a *review* is what the API server asks; it is answered with a JSON patch or a refusal. The *addition*
(`addition`) is what a pod gets together with its sidecar. `injecting` decides, purely, what a pod gets; `server`
listens, with a certificate that is read again when it changes.
"""
