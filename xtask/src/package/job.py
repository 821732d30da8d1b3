"""A job in rounds, and its receiver. A daemon goes by the rounds of a job without a page: what sends without a pause is a
download to it, whatever its environment says."""
import socket
import sys
import threading
import time

ROUND = 1 << 20
# Longer than a daemon that is translated takes from one look at connections to the next.
PAUSE = 2.5

if sys.argv[1] == "sink":
    listener = socket.create_server(("10.77.0.2", 7000))

    def drain(connection):
        while connection.recv(1 << 16):
            pass

    while True:
        threading.Thread(target=drain, args=(listener.accept()[0],), daemon=True).start()
for _ in range(100):
    try:
        stream = socket.create_connection(("10.77.0.2", 7000))
        break
    except OSError:
        time.sleep(0.1)
while True:
    stream.sendall(bytes(ROUND))
    time.sleep(PAUSE)
