"""The tests of the page: a package, so that its browser ends with the last of them."""
