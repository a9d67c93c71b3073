"""Islands: one search on several workers, in processes of this machine or on a Ray cluster.

An island is a worker that owns models, source, evaluator and a whole technique, with a seed of its own; the run folder
is its job description. It searches in *epochs* of some generations and reports after each one. A collector, in the
process that was started, merges the reports by the hashes of the pictures, one epoch after the other and within an
epoch island by island; it keeps the one archive, writes parts and checkpoints, and tells every island what the others
were the first to find.

Nobody waits for the slowest in every epoch: what was found in epoch e reaches the others at the beginning of epoch
e + 2, which an island may begin as soon as all have reported e. So a run with a budget in queries is the same each
time, whoever is faster, and also when a worker dies: another one takes its place, begins where the last report ended,
and draws the same random numbers.
"""
