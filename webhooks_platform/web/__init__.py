"""What stands between the web server and Django: who is let in, and for how long a slow client may take.

The web server (granian, WSGI) gives each request a thread, and a thread that reads a body waits for as long as the
client likes. So threads are plentiful here, one for every connection, and what is scarce is a slot (`slots.py`): a
request holds one while it is worked on, never while it waits for its body. A body that takes too long is answered 408
(`bodies.py`), and a connection on which nothing moves any more is cut (`stalled.py`).
"""
