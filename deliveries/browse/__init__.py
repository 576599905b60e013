"""Lists and counts over millions of rows, for the console, the API and the shell alike.

Whoever asks gets an answer in well under a second, whatever the history holds: what an index orders is read in its
order, what no index knows is looked for in a window of so many rows, and the answer says where it stopped.
"""
