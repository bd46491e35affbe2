"""What the router knows of each release: watched continuously, told without telling where anything is (RT)."""
