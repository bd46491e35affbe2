"""Shared parts of the benchmarks in ``scripts/bench``: servers under test, load, measurement, report.

Laws that every benchmark keeps:

1. Servers run on one core, load on another, and both facts are in the report.
2. What is compared is measured in one run, interleaved (A B C A B C); a ratio is the median of the rounds' ratios.
3. A response counts when it is complete and has the right status; everything else is an error and is shown.
4. A server that is not installed or does not start is a row that says so.
5. Load goes to the loopback interface only and is bounded in count and in time.
"""
