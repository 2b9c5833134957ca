"""The bodies of requests and answers, typed, by family. Most are JSON.

``fastjson.decode(data, T)`` reads a body of type ``T``, ``body.encode_body(value)`` writes one. Not JSON: settings
(``properties.PropertiesText``), the timer check point (``store.TimerCheckpoint``) and compressed registrations
(``registration.decode_registration``); the first two have ``encode`` and ``decode`` of their own.
"""
