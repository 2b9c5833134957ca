"""Clients for simulated clusters: they speak the protocol and nothing else, and write down what they see.

``producer`` and ``consumer`` do what stock clients do, in a page each: routes from name servers, heartbeats, shares of
queues, long polls, commits, locks, messages sent back. They never give up: whatever fails is tried again until their
node ends. ``transactions`` sends half messages and answers checks. ``firsts`` sends the first messages of topics that
nobody made. ``lives`` makes topics, uses, grows, deletes and makes them again. ``hostile`` does what no client should:
it pipelines and does not read, stops within a frame, parks polls and vanishes.
"""
