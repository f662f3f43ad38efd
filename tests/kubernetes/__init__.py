"""On a real API server with a real StatefulSet controller (`make kubernetes`): pods are made there, and run nowhere."""
