"""What ``scripts/soak`` runs: long courses that look for what is lost, left over or answered wrongly.

Laws that every part keeps:

1. It goes in steps, each bounded in time, memory and descriptors. After each its state is a file under ``build/soak``.
2. An interrupted part goes on after its last whole step. What was not measured to its end is not counted.
3. What is expected is exact and decided before. Anything else is wrong, and shown with its bytes.
4. Load goes to the loopback interface only, and whatever was started is ended.
"""
