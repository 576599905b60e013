"""What is measured: one module for each measure of `make bench`, and what several of them share."""
