"""Memory that several processes map, and arrays that lie in it. It knows no frames, no loop and no messages.

    `shared_mapping`  a file without a name, as a process maps it; arrays in it that report when their last view is gone
    `shared_arrays`   the slots of one process: which of its arrays are in use, which memory is kept or given back
    `free_ranges`     which addresses are free

`placement.isolation` and `placement.ranks` have frames in it, `distributed` the arrays of a call. One process makes the
memory before it starts the others, which inherit its descriptor. Memory that grows in pieces (*extents*) was considered and
rejected: each piece would have to be sent as a descriptor to a process that may have none left, and a batch of 4K frames
would need pieces of its own. A sparse file costs addresses alone.
"""
