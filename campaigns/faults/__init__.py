"""Real faults on real disks: processes killed at every write, power that goes, disks that fill, fail and rot.

A campaign is one command, ``python -m campaigns.faults CAMPAIGN``; each prints its figures, may be stopped and
taken up again, and appends one line to a ledger. The parts, from the bottom up:

* `recipe`: messages that follow from a seed and a number, so that what is found can be told from what was sent;
* `session`: a store on a directory of the real disk, opened as the faults need it;
* `acks`: what a store has promised, as lines that survive the process that printed them;
* `writer` and `checker`: the programs that make promises and hold a directory to them;
* `children`: a process forked from a warm one, because starting Python would take longer than a whole test;
* `interception`: every system call that changes the directory, seen and decided from outside (seccomp);
* `loop_file_system`: file systems in a file whose power can be cut; `small_disk`: one that is soon full;
* `timeline`: when a writer's loop turned and its log was synced;
* `kills`, `power_loss`, `cuts`, `refusals`, `rot`: the campaigns.
"""
