"""One store under two brokers: what is put into it, by whom, and whether all of it is found again.

`plan` says what every message of a number is. `talk` puts the messages of a plan into Apache's broker and gets them
out again, `ours` puts them into a store of our own, `examine` opens a store in ours and looks for every one of them.
"""
