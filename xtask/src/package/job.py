"""A job that sends in rounds, by which a daemon knows it from a download; and its receiver."""
import socket
import sys
import threading
import time

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
    stream.sendall(bytes(1 << 20))
    time.sleep(0.5)
