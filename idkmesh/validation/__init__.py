"""What files and values are judged by: a tree that knows its places, a table of what may stand there, and findings."""
