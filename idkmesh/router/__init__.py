"""The router: invocations by exact release, on the topology that it watches (RT-9), and the evidence of it (RT-11)."""
