"""`make bench`."""

from benchmarks.deliver import bare, drain, preload
from benchmarks.stand import stand

with stand() as bench:
    for processes in (1, 2):
        print("bare", processes, bare(bench, processes=processes, count=20_000, at_once=200, size=450), flush=True)
    for workers in (1, 2):
        preload(bench, name=f"w{workers}", endpoints=20, events=1000, size=450)
        print("drain", workers, drain(bench, workers=workers, count=20_000), flush=True)
